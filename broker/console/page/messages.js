import { html, useState, useEffect, useRef, get, query, listen, mayWrite, say, count, bytes, clock, instant, to, Empty, Problem, Field } from "/assets/kit.js";

const LIVE_MAX = 200;

export function Messages({ topic, partitions }) {
  const [asked, setAsked] = useState({ partition: "all", order: "newest", from: "", offset: "", time: "", key: "", text: "", control: false, committed: false, perkey: false });
  const [page, setPage] = useState({ messages: [], cursor: "", problems: [], looked_at: 0, done: false });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [live, setLive] = useState(false);
  const run = useRef(0);
  const fields = (form) => ({
    topic, partition: form.partition, order: form.order, key: form.key, text: form.text, by_key: Boolean(form.key) && form.partition === "all",
    control: form.control, committed: form.committed, limit: 50,
    offset: form.from === "offset" ? form.offset : "", timestamp: form.from === "time" && form.time ? new Date(form.time).getTime() : "",
  });
  // Goes on by itself until the page has something, a few times: a search may need many requests.
  const search = async (form, begun) => {
    const mine = run.current += 1;
    setBusy(true);
    setError(null);
    let found = begun || { messages: [], cursor: "", problems: [], looked_at: 0, done: false };
    if (!begun) setPage(found);
    const aim = found.messages.length;
    try {
      do {
        const next = await get("messages", { ...fields(form), cursor: found.cursor });
        if (mine !== run.current) return;
        const fresh = form.perkey && form.order === "newest" ? newest(found.messages, next.messages) : next.messages;
        found = { messages: [...found.messages, ...fresh], cursor: next.cursor, done: next.is_complete, problems: [...found.problems, ...next.problems].slice(0, 50), looked_at: found.looked_at + next.looked_at };
        setPage(found);
      } while (!found.done && found.messages.length === aim);
    } catch (failed) { if (mine === run.current) setError(failed); }
    if (mine === run.current) setBusy(false);
  };
  const stop = () => { run.current += 1; setBusy(false); };
  useEffect(() => { search(asked); return () => { run.current += 1; }; }, [topic]);
  useEffect(() => {
    if (!live) return undefined;
    stop();
    setPage({ messages: [], cursor: "", problems: [], looked_at: 0, done: true, skipped: 0 });
    return listen(`tail${query({ ...fields(asked), limit: "", order: "", offset: "", timestamp: "" })}`, {
      messages: (found) => setPage((before) => ({ ...before, messages: [...found.messages.reverse(), ...before.messages].slice(0, LIVE_MAX), skipped: before.skipped + found.skipped })),
      ended: (found) => { setLive(false); setError({ status: 403, message: found.reason }); },
    }, (refusal) => { // without an answer it begins again by itself
      if (refusal && refusal.status) { setLive(false); setError(refusal); }
    });
  }, [live]);
  const set = (name) => (event) => setAsked({ ...asked, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const send = (event) => { event.preventDefault(); setLive(false); search(asked); };
  const filtered = asked.key || asked.text;
  return html`<section aria-label="Messages"><form class="filters" onSubmit=${send}>
      <${Field} label="Partition"><select value=${asked.partition} onChange=${set("partition")}><option value="all">All</option>${Array.from({ length: Math.min(partitions, 1000) }, (_, at) => html`<option value=${at}>${at}</option>`)}</select><//>
      <${Field} label="Order"><select value=${asked.order} onChange=${set("order")}><option value="newest">Newest first</option><option value="oldest">Oldest first</option></select><//>
      <${Field} label="From"><select value=${asked.from} onChange=${set("from")}><option value="">${asked.order === "newest" ? "The end" : "The beginning"}</option><option value="offset">An offset</option><option value="time">A time</option></select><//>
      ${asked.from === "offset" && html`<${Field} label="Offset"><input type="number" min="0" required value=${asked.offset} onInput=${set("offset")} /><//>`}
      ${asked.from === "time" && html`<${Field} label="Time"><input type="datetime-local" step="1" required value=${asked.time} onInput=${set("time")} /><//>`}
      <${Field} label="Key is" kind="grow"><input type="search" value=${asked.key} onInput=${set("key")} /><//>
      <${Field} label="Contains" kind="grow"><input type="search" value=${asked.text} onInput=${set("text")} /><//>
      <${Field} label="Markers" kind="check"><input type="checkbox" checked=${asked.control} onChange=${set("control")} /><//>
      <${Field} label="Committed only" kind="check"><input type="checkbox" checked=${asked.committed} onChange=${set("committed")} /><//>
      ${asked.order === "newest" && html`<${Field} label="Newest of each key" kind="check"><input type="checkbox" checked=${asked.perkey} onChange=${set("perkey")} /><//>`}
      <div class="buttons"><button class="main">Search</button><button type="button" aria-pressed=${live} onClick=${() => setLive(!live)}>${live ? "Stop following" : "Follow live"}</button>
        <a class="button quiet" download href=${`/api/v1/export${query({ topic, partition: asked.partition, key: asked.key, text: asked.text, committed: asked.committed })}`}>Export</a></div></form>
    <${Problem} error=${error} load=${() => search(asked)} />
    ${page.problems.map((one) => html`<div class="notice warning"><strong>Partition ${one.partition} cannot be read from offset ${count(one.offset)} to ${count(one.until)}</strong><p>${one.reason}</p></div>`)}
    ${live && html`<p class="progress" role="status"><span class="dot running"></span>Following: records appear as they arrive${page.skipped ? `; ${count(page.skipped)} were too fast to show` : ""}</p>`}
    ${page.messages.length > 0 && html`<ol class="messages">${page.messages.map((one) => html`<${Message} key=${`${one.partition}-${one.offset}`} topic=${topic} one=${one} />`)}</ol>`}
    ${!busy && !live && !error && page.done && !page.messages.length && html`<${Empty} title=${filtered ? "No record matches" : "No records here"}>${filtered ? `${count(page.looked_at)} records were looked at, all there are.` : html`Produce one${mayWrite() ? html` <a href=${to("topics", topic, "produce")}>here</a>` : ""}, or choose another place to begin.`}<//>`}
    <div class="more">${busy ? html`<p class="progress" role="status">Looking … ${count(page.looked_at)} records so far</p><button class="quiet" onClick=${stop}>Stop</button>`
      : !page.done && (page.messages.length > 0 || page.looked_at > 0) && html`<button onClick=${() => search(asked, page)}>${filtered ? "Search on" : "Show more"}</button>${filtered && html`<p class="progress">${count(page.looked_at)} records were looked at</p>`}`}</div></section>`;
}

// Those of a page whose key was not shown before: read from the newest on, what is left is the newest.
const keyOf = (one) => `${one.partition} ${one.key === null ? "" : `${one.key.size} ${one.key.text || one.key.base64}`}`;
function newest(shown, next) {
  const seen = new Set(shown.filter((one) => one.key !== null).map(keyOf));
  return next.filter((one) => one.key === null || !seen.has(keyOf(one)) && seen.add(keyOf(one)));
}

function preview(part) {
  if (part === null) return html`<span class="null">null</span>`;
  if (part.size === 0) return html`<span class="null">empty</span>`;
  if (part.text !== undefined) return part.text.slice(0, 240).replace(/\s+/g, " ");
  return html`<span class="null">${part.kind === "avro" ? `Avro, schema ${part.schema}` : "binary"}, ${bytes(part.size)}</span>`;
}

function Message({ topic, one }) {
  const [open, setOpen] = useState(false);
  const id = `m${one.partition}-${one.offset}`;
  return html`<li><button class="row" aria-expanded=${open} aria-controls=${id} onClick=${() => setOpen(!open)}>
      <span class="at"><time>${clock(one.timestamp)}</time><span class="place">${one.partition}·${count(one.offset)}</span></span>
      <span class="k mono">${one.control ? html`<span class="tag">${one.control}</span>` : preview(one.key)}</span><span class="v mono">${one.control ? "" : one.decoded && one.decoded.type ? `${one.decoded.type} ${JSON.stringify(one.decoded.key)}` : one.value === null ? html`<span class="tag">tombstone</span>` : preview(one.value)}</span></button>
    ${open && html`<div class="detail" id=${id}><${Detail} topic=${topic} first=${one} /></div>`}</li>`;
}

function Detail({ topic, first }) {
  const [one, setOne] = useState(first);
  const [error, setError] = useState(null);
  const where = { topic, partition: one.partition, offset: one.offset };
  const isCut = (part) => part !== null && part.cut;
  const whole = async () => { try { setOne(await get("message", where)); } catch (failed) { setError(failed); } };
  const again = async () => {
    try {
      sessionStorage.setItem("again", JSON.stringify(form(await get("message", where))));
      location.hash = to("topics", topic, "produce");
    } catch (failed) { setError(failed); }
  };
  const batch = one.batch;
  return html`<dl class="facts tight">
      <div><dt>Time</dt><dd>${instant(one.timestamp)}</dd></div>
      <div><dt>Partition, offset</dt><dd>${one.partition}, ${count(one.offset)}</dd></div>
      <div><dt>Batch</dt><dd>from ${count(batch.base_offset)}, ${count(batch.records)} records, ${bytes(batch.bytes)}, ${batch.codec === "none" ? "not compressed" : batch.codec}</dd></div>
      ${batch.producer_id >= 0 && html`<div><dt>Producer</dt><dd>${batch.producer_id}, epoch ${batch.producer_epoch}${batch.is_transactional ? ", transactional" : ""}</dd></div>`}</dl>
    <${Part} title="Key" part=${one.key} where=${where} /><${Part} title="Value" part=${one.value} where=${where} />
    ${one.decoded && html`<h2 class="sub">Decoded</h2><pre tabindex="0" aria-label="Decoded">${JSON.stringify(one.decoded, null, 2)}</pre>`}
    ${one.header_count > 0 && html`<h2 class="sub">Headers</h2><dl class="facts tight">${one.headers.map(([name, value]) => html`<div><dt class="mono">${name}</dt><dd class="mono">${preview(value)}</dd></div>`)}</dl>${one.header_count > one.headers.length && html`<p class="hint">${one.header_count - one.headers.length} more</p>`}`}
    <${Problem} error=${error} /><div class="buttons">
      ${(isCut(one.key) || isCut(one.value)) && html`<button class="quiet" onClick=${whole}>Show whole</button>`}
      ${one.value !== null && html`<a class="button quiet" download href=${`/api/v1/message${query({ ...where, part: "value" })}`}>Download the value</a>`}
      ${mayWrite() && !one.control && html`<button class="quiet" onClick=${again}>Produce again …</button>`}</div>`;
}

// What the form for a record can take of a whole one, and the names of what it cannot.
function form(one) {
  const left = [];
  const text = (part, what) => {
    if (part === null || part.text !== undefined && part.kind !== "msgpack" && (part.size || what === "value")) return part && part.text;
    left.push(part.size ? `the ${what}, which is no text` : `the ${what}, which is empty`);
    return null;
  };
  const fits = ([name, value]) => value && value.text !== undefined && value.kind !== "msgpack" && !value.cut && name.length < 256 && name === name.trim() && value.text === value.text.trim() && /^[^:\n]+$/.test(name) && !value.text.includes("\n");
  const headers = one.headers.filter(fits).map(([name, value]) => [name, value.text]);
  const key = text(one.key, "key"), value = text(one.value, "value");
  if (headers.length < one.header_count) left.push(`${one.header_count - headers.length} of ${one.header_count} headers`);
  return { key: key || "", value: value || "", isnull: one.value === null, headers, left };
}

const HEX_MAX = 4096;
const FORMS = { text: "Text", json: "JSON", hex: "Hex", base64: "Base64", msgpack: "MessagePack" };

function Part({ title, part }) {
  const [form, setForm] = useState("");
  if (part === null) return html`<h2 class="sub">${title}</h2><p class="null">null</p>`;
  const raw = part.base64 !== undefined ? Uint8Array.from(atob(part.base64), (char) => char.charCodeAt(0)) : new TextEncoder().encode(part.text);
  let parsed;
  if (part.text !== undefined && part.kind !== "msgpack" && !part.cut) { try { parsed = JSON.parse(part.text); } catch { parsed = undefined; } }
  const forms = [...(parsed !== undefined && typeof parsed === "object" ? ["json"] : []), ...(part.kind === "msgpack" ? ["msgpack"] : []), ...(part.base64 === undefined ? ["text"] : []), "hex", "base64"];
  const shown = forms.includes(form) ? form : forms[0];
  const content = () => {
    if (shown === "json") return indented(part.text);
    if (shown === "text" || shown === "msgpack") return part.text;
    if (shown === "base64") return part.base64 !== undefined ? part.base64 : btoa(Array.from({ length: Math.ceil(raw.length / 32768) }, (_, at) => String.fromCharCode(...raw.slice(at * 32768, (at + 1) * 32768))).join(""));
    return hex(raw);
  };
  const copy = async () => { try { await navigator.clipboard.writeText(content()); say("Copied"); } catch { say("The browser does not allow copying here"); } };
  return html`<div class="part"><h2 class="sub">${title} <span class="hint">${bytes(part.size)}${part.cut ? ", the first 1 KiB shown" : shown === "hex" && raw.length > HEX_MAX ? `, the first ${bytes(HEX_MAX)} shown` : ""}${part.kind === "avro" ? `, Confluent's Avro frame, schema ${part.schema}` : ""}</span></h2>
    <div class="choice small" role="group" aria-label=${`Format of the ${title.toLowerCase()}`}>${forms.map((name) => html`<button aria-pressed=${name === shown} onClick=${() => setForm(name)}>${FORMS[name]}</button>`)}<button onClick=${copy}>Copy</button></div></div>
    <pre tabindex="0" aria-label=${title}>${content()}</pre>`;
}
// JSON with breaks and indents and nothing else changed: parsed, 64-bit numbers would be rounded.
function indented(text) {
  let found = "", depth = 0, isFirst = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s"[\]{},:]+/g)) {
    const closes = token === "]" || token === "}";
    if (closes) depth -= 1;
    if (closes ? !isFirst : isFirst) found += line();
    isFirst = token === "[" || token === "{";
    if (isFirst) depth += 1;
    found += token === ":" ? ": " : token === "," ? `,${line()}` : token;
  }
  return found;
}
function hex(raw) {
  const lines = [];
  for (let at = 0; at < Math.min(raw.length, HEX_MAX); at += 16) {
    const row = [...raw.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${row.map((one) => one >= 32 && one < 127 ? String.fromCharCode(one) : "·").join("")}`);
  }
  return lines.join("\n");
}
