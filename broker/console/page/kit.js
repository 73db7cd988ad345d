// What all views share: requests, formats, hooks and small components. No view knows another.
import { html, useState, useEffect, useRef, useCallback } from "/assets/vendor/preact-htm-3.1.1.js";

export { html, useState, useEffect, useRef, useCallback };

// -- requests -------------------------------------------------------------------------------

export class ApiError extends Error {
  constructor(status, code, message) { super(message); this.status = status; this.code = code; }
}

const listeners = new Set();
export const state = { online: true, session: null, overview: null };
export function change(part) {
  Object.assign(state, part);
  for (const one of [...listeners]) one();
}
export function useShared() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const one = () => redraw((count) => count + 1);
    listeners.add(one);
    return () => listeners.delete(one);
  }, []);
  return state;
}

// Returns the response, or throws why it is none.
async function asked(path, options) {
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { credentials: "same-origin", ...options });
  } catch {
    if (!(options && options.signal && options.signal.aborted)) change({ online: false });
    throw new ApiError(0, "OFFLINE", "The broker does not answer. This page tries again by itself.");
  }
  if (!state.online) change({ online: true });
  if (response.ok) return response;
  let found = null;
  try { found = await response.json(); } catch { /* no JSON: an error of the listener itself */ }
  const error = found && found.error || { code: "HTTP", message: `The broker answered ${response.status}.` };
  if (response.status === 401 && path !== "login") loadSession();
  throw new ApiError(response.status, error.code, error.message);
}
async function answered(path, options) {
  const response = await asked(path, options);
  try { return await response.json(); } catch { throw new ApiError(0, "CUT", "The answer was cut off. Try again."); }
}
export const get = (path, fields) => answered(path + query(fields));
export const post = (path, body) => answered(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", "X-Barnabas": "1" },
  body: JSON.stringify(body),
});
export function query(fields) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(fields || {})) {
    if (value !== "" && value !== null && value !== undefined && value !== false) found.set(name, value === true ? "1" : value);
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}
// One request at a time, and another after it if somebody asked meanwhile: a login may lie between.
let asking = false, again = false;
export async function loadSession() {
  again = true;
  if (asking) return;
  asking = true;
  while (again) {
    again = false;
    try { change({ session: await get("session") }); } catch { again = true; await new Promise((done) => { setTimeout(done, 2000); }); }
  }
  asking = false;
}

// Loads now, when `fields` change, and every so many seconds while the page is seen.
export function useLoad(path, fields, seconds) {
  const [found, setFound] = useState({ data: null, error: null });
  const key = path + query(fields);
  const current = useRef(key), asked = useRef(0), shown = useRef(0);
  current.current = key;
  const load = useCallback(async () => {
    const mine = asked.current += 1;
    const isNews = () => { // an answer may overtake one that was asked for before it
      if (current.current !== key || mine < shown.current) return false;
      shown.current = mine;
      return true;
    };
    try {
      const data = await answered(key);
      if (isNews()) setFound({ data, error: null, key });
    } catch (error) {
      if (isNews()) setFound((before) => ({ data: before.key === key ? before.data : null, error, key }));
    }
  }, [key]);
  useEffect(() => {
    load();
    if (!seconds) return undefined;
    const timer = setInterval(() => { if (!document.hidden) load(); }, seconds * 1000);
    return () => clearInterval(timer);
  }, [load, seconds]);
  return { ...found, load };
}

// Server-sent events; begins again by itself when the broker is back. By fetch, since an EventSource
// does not say why it was refused. `lost` gets the refusal, or null if the events have ended.
export function listen(path, handlers, lost) {
  const control = new AbortController();
  let timer = 0;
  const begin = async () => {
    let error = null;
    try { await follow(path, handlers, control.signal); } catch (found) { error = found; }
    if (control.signal.aborted) return;
    lost(error);
    if (!control.signal.aborted) timer = setTimeout(begin, error && error.status ? 10000 : 1500);
  };
  begin();
  return () => { control.abort(); clearTimeout(timer); };
}
async function follow(path, handlers, signal) {
  const response = await asked(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    let part;
    try { part = await reader.read(); } catch { return; } // it was cut off
    if (part.done || signal.aborted) return;
    const events = (text + part.value).split("\n\n");
    text = events.pop();
    for (const one of events) {
      const [kind, data] = one.split("\ndata: ");
      const handler = handlers[kind.replace("event: ", "")];
      if (handler && !signal.aborted) handler(JSON.parse(data));
    }
  }
}

// -- formats --------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en");
export const count = (value) => value === null || value === undefined ? "–" : whole.format(Math.round(value));
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return size >= 100 || Number.isInteger(value) ? whole.format(Math.round(value)) : value.toFixed(1);
}
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 ? Math.round(value) : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  for (let at = 0; at < steps.length; at += 1) {
    const [size, unit] = steps[at];
    if (seconds >= size || size === 1) {
      const main = Math.floor(seconds / size);
      const next = steps[at + 1];
      const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
      return rest && main < 10 ? `${main} ${unit} ${rest} ${next[1]}` : `${size === 1 && seconds < 10 ? Number(seconds.toFixed(1)) : main} ${unit}`;
    }
  }
  return "0 s";
}
export function retention(ms) {
  return ms === null || ms === undefined ? "–" : ms < 0 ? "for ever" : span(ms / 1000);
}
const two = (value) => String(value).padStart(2, "0");
export function when(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}
// With milliseconds; -1 is no time, and a client may have sent one that no calendar has.
export function instant(ms) {
  return ms >= 0 && ms <= 8.64e15 ? `${when(ms)}.${String(ms % 1000).padStart(3, "0")}` : when(ms);
}
export function clock(ms) {
  const at = new Date(ms);
  if (ms < 0 || Number.isNaN(at.getTime())) return when(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

// -- components -----------------------------------------------------------------------------

export function Page({ title, lead, actions, back, children }) {
  useEffect(() => { document.title = `${title} · Barnabas`; }, [title]);
  return html`<main id="main" tabindex="-1">
    <header class="head">
      <div>
        ${back && html`<a class="back" href=${back.href}>${back.text}</a>`}
        <h1>${title}</h1>${lead && html`<p class="lead">${lead}</p>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>${children}
  </main>`;
}
export function Problem({ error, load }) {
  if (!error) return null;
  const title = { 403: "You may not see this", 404: "Not found", 0: "No answer" }[error.status] || "That did not work";
  return html`<div class="problem" role="alert"><strong>${title}</strong><p>${error.message}</p>
    ${load && error.status !== 403 && html`<button class="quiet" onClick=${load}>Try again</button>`}</div>`;
}
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><p>${children}</p></div>`;
}
export function Loading() { return html`<p class="loading" role="status">Loading …</p>`; }

// `columns`: [heading, class]; a row is a list of cells.
export function Table({ caption, columns, rows, empty }) {
  if (!rows.length) return empty || null;
  return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
    <table><thead><tr>${columns.map(([name, kind]) => html`<th scope="col" class=${kind || ""}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((cells) => html`<tr>${cells.map((cell, at) => at === 0
      ? html`<th scope="row" class=${columns[at][1] || ""}>${cell}</th>`
      : html`<td class=${columns[at][1] || ""}>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}
export function Pager({ total, offset, limit, move }) {
  useEffect(() => { // what was on this page is gone
    if (offset > 0 && offset >= total) move(Math.max(0, Math.floor((total - 1) / limit) * limit));
  }, [total, offset]);
  if (total <= limit) return null;
  return html`<nav class="pager" aria-label="Pages">
    <button class="quiet" disabled=${offset === 0} onClick=${() => move(Math.max(0, offset - limit))}>← Back</button>
    <span>${count(offset + 1)}–${count(Math.min(total, offset + limit))} of ${count(total)}</span>
    <button class="quiet" disabled=${offset + limit >= total} onClick=${() => move(offset + limit)}>Next →</button></nav>`;
}
let ids = 0;
export function Field({ label, hint, children, kind }) {
  const id = useRef(`f${ids += 1}`).current;
  const child = { ...children, props: { ...children.props, id, "aria-describedby": hint ? `${id}h` : undefined } };
  return html`<div class=${`field ${kind || ""}`}><label for=${id}>${label}</label>${child}
    ${hint && html`<p class="hint" id=${`${id}h`}>${hint}</p>`}</div>`;
}
export function Dialog({ title, close, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    if (!box.current.open) box.current.showModal();
    return () => { if (before && before.focus) before.focus(); };
  }, []);
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

// A form that posts: keeps what was said, shows errors beside its buttons, and cannot be sent twice.
export function useAction(run) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const act = async (...given) => {
    setBusy(true);
    setError(null);
    try { return await run(...given); } catch (found) { setError(found); return null; } finally { setBusy(false); }
  };
  return { act, busy, error, clear: () => setError(null) };
}
// What a dry run has found. An answer that comes when its form has changed says nothing of it.
export function useChecked() {
  const [checked, setChecked] = useState(null);
  const form = useRef(0);
  const changed = () => { form.current += 1; setChecked(null); };
  const begin = () => {
    const mine = form.current;
    return (found) => { if (mine === form.current) setChecked(found); };
  };
  return { checked, changed, begin };
}
export const mayWrite = () => Boolean(state.session && state.session.may_write);

export function Bar({ share, label }) {
  return html`<div class="bar" role="img" aria-label=${label}><div style=${{ width: `${share > 0 ? Math.max(0.5, Math.min(100, share * 100)) : 0}%` }}></div></div>`;
}
export function say(text) {
  const place = document.getElementById("said");
  if (place) { place.textContent = text; clearTimeout(say.timer); say.timer = setTimeout(() => { place.textContent = ""; }, 5000); }
}
