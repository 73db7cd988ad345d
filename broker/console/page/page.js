// The frame of the page: who is here, where one is, and whether the broker answers.
import { render } from "/assets/vendor/preact-htm-3.1.1.js";
import { html, useState, useEffect, useShared, change, loadSession, listen, post, Page, Empty } from "/assets/kit.js";
import { Overview } from "/assets/overview.js";
import { Login } from "/assets/login.js";

const PLACES = [
  ["overview", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["configs", "Configuration"],
  ["disk", "Disk"], ["log", "Log"], ["clients", "Clients"], ["transactions", "Transactions"], ["users", "Users"],
];
// Views other than the first are loaded when they are first seen.
const VIEWS = {
  topics: () => import("/assets/topics.js").then((found) => found.Topics),
  groups: () => import("/assets/groups.js").then((found) => found.Groups),
  configs: () => import("/assets/configs.js").then((found) => found.Configs),
  disk: () => import("/assets/more.js").then((found) => found.Disk),
  log: () => import("/assets/more.js").then((found) => found.Log),
  clients: () => import("/assets/more.js").then((found) => found.Clients),
  transactions: () => import("/assets/more.js").then((found) => found.Transactions),
  users: () => import("/assets/more.js").then((found) => found.Users),
};
const views = { overview: Overview };

function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try { return parts.map(decodeURIComponent); } catch { return ["nowhere"]; }
}

function Later({ name, parts }) {
  const [, loaded] = useState("");
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (views[name] || !VIEWS[name]) return;
    setFailed(false);
    VIEWS[name]().then((view) => { views[name] = view; loaded(name); }).catch(() => setFailed(true));
  }, [name]);
  if (!VIEWS[name] && !views[name]) {
    return html`<${Page} title="Not found"><${Empty} title="There is no such page">Choose one of the menu.<//><//>`;
  }
  if (failed) return html`<${Page} title="No answer"><${Empty} title="This view could not be loaded">Reload the page when the broker answers.<//><//>`;
  const View = views[name];
  return View ? html`<${View} parts=${parts} key=${name} />` : html`<main id="main" tabindex="-1"><h1 class="sr">Loading</h1></main>`;
}

function Menu({ at }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [at]);
  const { overview, session } = useShared();
  const notices = overview ? overview.notices.filter((one) => one.level !== "info").length : 0;
  const out = async () => { await post("logout", {}); change({ overview: null }); loadSession(); };
  return html`<header class="side">
    <div class="brand"><a class="mark" href="#/overview"><span class="seal" aria-hidden="true"></span>Barnabas</a>
      <button class="menu" aria-expanded=${open} aria-controls="menu" onClick=${() => setOpen(!open)}>Menu</button></div>
    <nav id="menu" class=${open ? "open" : ""} aria-label="Views">
      ${PLACES.map(([name, title]) => html`<a href=${`#/${name}`} aria-current=${at === name ? "page" : null}>${title}
        ${name === "overview" && notices > 0 && html`<span class="badge">${notices}<span class="sr"> notices</span></span>`}</a>`)}
    </nav>
    <div class="foot">
      ${session && !session.is_guest && session.principal && html`<p class="who"><span>${session.principal}</span>
        <button class="quiet small" onClick=${out}>Log out</button></p>`}
      ${session && session.principal && !session.may_write && html`<p class="note">Read-only</p>`}
      ${overview && html`<p class="note">${overview.version} · node ${overview.node_id}</p>`}
    </div>
  </header>`;
}

function App() {
  const [parts, setParts] = useState(place());
  const { session, online } = useShared();
  useEffect(() => {
    const moved = () => {
      setParts(place());
      window.scrollTo(0, 0);
      const main = document.getElementById("main");
      if (main) main.focus({ preventScroll: true });
    };
    addEventListener("hashchange", moved);
    loadSession();
    return () => removeEventListener("hashchange", moved);
  }, []);
  const inside = Boolean(session && session.principal);
  const principal = session && session.principal;
  useEffect(() => {
    if (!inside) return undefined;
    let stop = null;
    const begin = () => listen("events", {
      overview: (overview) => change({ overview, refusal: null }),
      ended: () => { change({ overview: null }); loadSession(); },
    }, (refusal) => { change({ refusal }); loadSession(); });
    // Not while nobody looks: a browser has six connections for all its pages of a broker.
    const look = () => {
      if (!document.hidden) stop = stop || begin();
      else if (stop) { stop(); stop = null; }
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => { document.removeEventListener("visibilitychange", look); if (stop) stop(); };
  }, [inside, principal]);
  const at = parts[0] || "overview";
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    ${!online && html`<div class="lost" role="alert">The broker does not answer. This page goes on by itself when it does.</div>`}
    ${!session ? html`<main id="main" class="alone" tabindex="-1"><h1 class="sr">Barnabas</h1></main>`
      : !inside ? html`<${Login} />`
      : html`<div class="frame"><${Menu} at=${at} /><${Later} name=${at} parts=${parts.slice(1)} /></div>`}
    <div id="said" class="said" role="status" aria-live="polite"></div>`;
}
document.getElementById("app").textContent = "";
render(html`<${App} />`, document.getElementById("app"));
