// The views that only show: disk, log, clients, transactions, users.
import { html, useState, useEffect, useRef, useLoad, get, count, short, bytes, span, when, clock, to, Page, Table, Empty, Problem, Loading, Pager, Field, Bar } from "/assets/kit.js";

const LIMIT = 100;

export function Disk() {
  const { data, error, load } = useLoad("disk", {}, 5);
  const all = data ? data.log_bytes + data.free_bytes : 1;
  const most = data && data.topics.length ? Math.max(1, data.topics[0].bytes) : 1;
  return html`<${Page} title="Disk" lead=${data && html`<span class="mono">${data.directory}</span>`}>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`${data.is_full && html`<section class="notice error"><strong>The disk is full: producers are refused</strong><p>Free space on it, or shorten retention: writes then succeed again by themselves.</p></section>`}
      <dl class="figures"><div><dt>Logs</dt><dd>${bytes(data.log_bytes)}</dd></div><div><dt>Free</dt><dd>${bytes(data.free_bytes)}</dd></div>
        <div><dt>Grows by</dt><dd>${bytes(data.growth)}/s</dd></div><div><dt>Full in</dt><dd>${data.full_in_s === null ? "–" : span(data.full_in_s)}</dd></div>
        <div><dt>Not yet durable</dt><dd>${bytes(data.unflushed_bytes)}</dd></div><div><dt>Failed fsyncs</dt><dd>${count(data.flush_failures)}</dd></div></dl>
      <${Bar} share=${data.log_bytes / all} label=${`The logs take ${Math.round(100 * data.log_bytes / all)} % of what they and the free space have`} />
      <h2>fsync times</h2><${Histogram} found=${data.fsync} />
      <h2>By topic</h2><${Table} caption="Topics by size" columns=${[["Topic"], ["Segments", "number wide"], ["Size", "number"], [html`<span class="sr">Share</span>`, "share"]]}
        rows=${data.topics.map((one) => [html`<a href=${to("topics", one.name)}>${one.name}</a>`, count(one.segments), bytes(one.bytes), html`<${Bar} share=${one.bytes / most} label=${`${Math.round(100 * one.bytes / most)} % of the largest`} />`])}
        empty=${html`<${Empty} title="No topics yet">Nothing takes up room.<//>`} />`}<//>`;
}
const millis = (value) => value >= 1000 ? `${value / 1000} s` : value >= 1 ? `${value} ms` : `${value * 1000} µs`;
function Histogram({ found }) {
  const total = found.counts.reduce((sum, one) => sum + one, 0), most = Math.max(1, ...found.counts);
  if (!total) return html`<${Empty} title="No fsync yet">The first acknowledged record brings one.<//>`;
  const first = found.counts.findIndex(Boolean), last = found.counts.length - 1 - [...found.counts].reverse().findIndex(Boolean);
  return html`<div class="histogram">${found.counts.map((one, at) => at < first || at > last ? null : html`<div class="bin"><span>${at < found.bounds_ms.length ? `≤ ${millis(found.bounds_ms[at])}` : `> ${millis(found.bounds_ms[at - 1])}`}</span><${Bar} share=${one / most} label=${`${one} fsyncs`} /><span class="number">${count(one)}</span></div>`)}</div>`;
}

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

export function Log() {
  const [lines, setLines] = useState([]);
  const [error, setError] = useState(null);
  const [level, setLevel] = useState("INFO");
  const [text, setText] = useState("");
  const newest = useRef(0), started = useRef(0);
  useEffect(() => {
    let gone = false, busy = false;
    const load = async () => {
      if (busy) return; // the same lines would come twice
      busy = true;
      try {
        const found = await get("log", { after: newest.current });
        if (gone) return;
        setError(null);
        if (started.current && started.current !== found.started_ms) { // another broker's lines have other numbers
          started.current = newest.current = 0;
          setLines([]);
          setTimeout(load);
          return;
        }
        started.current = found.started_ms;
        if (found.lines.length) {
          newest.current = found.lines[found.lines.length - 1].number;
          setLines((before) => [...before, ...found.lines].slice(-1000));
        }
      } catch (failed) { if (!gone) setError(failed); } finally { busy = false; }
    };
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 2000);
    return () => { gone = true; clearInterval(timer); };
  }, []);
  const least = LEVELS.indexOf(level);
  const shown = lines.filter((one) => LEVELS.indexOf(one.level) >= least && one.message.toLowerCase().includes(text.toLowerCase())).reverse();
  return html`<${Page} title="Log" lead="The last 1,000 lines, the newest first">
    <div class="filters"><${Field} label="At least"><select value=${level} onChange=${(event) => setLevel(event.target.value)}>${LEVELS.slice(0, 4).map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
      <${Field} label="Contains" kind="grow"><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /><//></div>
    <${Problem} error=${error} />
    ${shown.length ? html`<ol class="log mono">${shown.map((one) => html`<li key=${one.number} class=${one.level.toLowerCase()}><time>${clock(one.time_ms)}</time><span class="level">${one.level}</span><span class="said-line">${one.message}${one.trace && html`<details><summary>Trace</summary><pre tabindex="0" aria-label="Trace">${one.trace}</pre></details>`}</span></li>`)}</ol>`
      : !error && html`<${Empty} title="No such lines">Nothing of this level, or with this text, is among the last 1,000 lines.<//>`}<//>`;
}

export function Clients() {
  const [offset, setOffset] = useState(0);
  const { data, error, load } = useLoad("clients", { offset, limit: LIMIT }, 3);
  const now = Date.now();
  return html`<${Page} title="Clients" lead=${data && `${count(data.total)} connections, the oldest first`}>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} caption="Connections" columns=${[["Client"], ["Software", "wide"], ["Principal", "wide"], ["Address"], ["Listener", "wide"], ["For", "number wide"], ["In", "number"], ["Out", "number"]]}
      rows=${data.clients.map((one) => [one.client_id || "–", one.software_name === "unknown" ? "–" : `${one.software_name} ${one.software_version}`, one.principal.replace(/^User:/, ""), `${one.host}:${one.port}`, one.listener, span((now - one.since_ms) / 1000), bytes(one.received_bytes), bytes(one.sent_bytes)])}
      empty=${html`<${Empty} title="No client is connected">Clients of Kafka and of the msgpack dialect show up here.<//>`} />
      <${Pager} total=${data.total} offset=${offset} limit=${LIMIT} move=${setOffset} />`}
    <${Pushed} /><//>`;
}

const PUSHED = 10;
// What clients push of themselves (KIP-714).
function Pushed() {
  const [offset, setOffset] = useState(0);
  const { data, error } = useLoad("client-metrics", { offset, limit: PUSHED }, 10);
  if (error || !data) return null;
  return html`<h2>Metrics that clients push</h2>
    ${data.clients.length ? html`<ul class="pushed">${data.clients.map((one) => html`<li key=${one.client_instance_id}><details><summary>${one.client_id || "–"} <span class="hint">${one.client_software_name} ${one.client_software_version} · ${one.client_source_address} · ${count(one.metrics.length)} metrics, pushed at ${clock(one.pushed_ms)}${one.has_ended ? ", ended" : ""}</span></summary>
      <${Table} caption=${`Metrics of ${one.client_id || one.client_instance_id}`} columns=${[["Metric", "mono"], ["Labels", "wide"], ["Value", "number"]]}
        rows=${one.metrics.map((each) => [each.name.replace(/^org\.apache\.kafka\./, ""), Object.entries(each.labels).map((pair) => pair.join("=")).join(", "), each.value === null ? "–" : short(each.value)])} /></details></li>`)}</ul>`
      : html`<${Empty} title="No client has pushed yet">Java's clients since 3.7 and librdkafka since 2.5 push each minute: docs/operations.md says what, and how to choose.<//>`}
    <${Pager} total=${data.total} offset=${offset} limit=${PUSHED} move=${setOffset} />`;
}

export function Transactions() {
  const [offset, setOffset] = useState(0);
  const { data, error, load } = useLoad("transactions", { offset, limit: LIMIT }, 3);
  const places = (topics) => Object.entries(topics).map(([topic, list]) => `${topic}: ${list.join(", ")}`).join("; ") || "–";
  return html`<${Page} title="Transactions" lead=${data && `${count(data.total)} transactional ids, open transactions first`}>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} caption="Transactional ids" columns=${[["Transactional id"], ["State"], ["Since", "wide"], ["Producer", "number wide"], ["Partitions", "wide"], ["Last end"]]}
      rows=${data.transactions.map((one) => [one.transactional_id, html`<span class=${`tag ${one.state === "Ongoing" ? "good" : ""}`}>${one.state}</span>`, one.started_ms > 0 ? when(one.started_ms) : "–", `${one.producer_id}, epoch ${one.producer_epoch}`, places(one.topics), one.last_end ? `${one.last_end.committed ? "committed" : "aborted"} by ${one.last_end.reason}` : "–"])}
      empty=${html`<${Empty} title="No transactional ids">A producer with a transactional.id shows up here.<//>`} />
      <${Pager} total=${data.total} offset=${offset} limit=${LIMIT} move=${setOffset} />`}<//>`;
}

export function Users() {
  const { data, error, load } = useLoad("users", {}, 10);
  return html`<${Page} title="Users" lead="Who can log in with SCRAM">
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} caption="Users" columns=${[["User"], ["Mechanisms"], ["Iterations", "number"]]}
      rows=${data.users.map((one) => [one.name, one.credentials.map((each) => each.mechanism).join(", "), one.credentials.map((each) => count(each.iterations)).join(", ")])}
      empty=${html`<${Empty} title="No users">kafka-configs --alter --entity-type users adds one; docs/security.md shows how.<//>`} />`}<//>`;
}
