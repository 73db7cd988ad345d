import { html, useState, useRef, useAction, post, say, count, bytes, to, Problem, Field } from "/assets/kit.js";

function begun() {
  const found = sessionStorage.getItem("again");
  sessionStorage.removeItem("again");
  try { return found ? JSON.parse(found) : {}; } catch { return {}; }
}

export function Produce({ topic, partitions }) {
  const [first] = useState(begun);
  const [key, setKey] = useState(first.key || "");
  const [value, setValue] = useState(first.value || "");
  const [isNull, setNull] = useState(Boolean(first.isnull));
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState((first.headers || []).map(([name, text]) => `${name}: ${text}`).join("\n"));
  const [made, setMade] = useState(null);
  const { act, busy, error } = useAction(async () => {
    setMade(null);
    const pairs = headers.split("\n").filter((line) => line.trim()).map((line) => { const at = line.indexOf(":"); return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]; });
    const found = await post("messages/produce", { topic, key: key !== "" ? key : null, value: isNull ? null : value, headers: pairs, partition: partition === "" ? -1 : Number(partition) });
    setMade(found);
    say(`Produced to partition ${found.partition}, offset ${found.offset}`);
  });
  return html`<form class="sheet" onSubmit=${(event) => { event.preventDefault(); act(); }}>
    ${first.left && first.left.length > 0 && html`<section class="notice warning"><strong>This is not all of the record</strong><p>Left out: ${first.left.join("; ")}.</p></section>`}
    <div class="row2"><${Field} label="Key" hint="Empty: no key" kind="grow"><input class="mono" value=${key} onInput=${(event) => setKey(event.target.value)} /><//>
      <${Field} label="Partition" hint="By the key, as Java's client"><select value=${partition} onChange=${(event) => setPartition(event.target.value)}><option value="">Automatic</option>${Array.from({ length: Math.min(partitions, 1000) }, (_, at) => html`<option value=${at}>${at}</option>`)}</select><//></div>
    <${Field} label="Value"><textarea class="mono" rows="10" disabled=${isNull} value=${isNull ? "" : value} onInput=${(event) => setValue(event.target.value)}></textarea><//>
    <${Field} label="Null value, a tombstone" kind="check"><input type="checkbox" checked=${isNull} onChange=${(event) => setNull(event.target.checked)} /><//>
    <${Field} label="Headers" hint="One a line, name: value"><textarea class="mono" rows="2" value=${headers} onInput=${(event) => setHeaders(event.target.value)}></textarea><//>
    <${Problem} error=${error} />
    ${made && html`<p class="fine" role="status">Durable in partition ${made.partition} at offset ${count(made.offset)}. <a href=${to("topics", topic, "messages")}>Show it</a></p>`}
    <div class="buttons"><button class="main" disabled=${busy}>${busy ? "Producing …" : "Produce"}</button></div></form>
    <${Import} topic=${topic} />`;
}

const EACH = 500, EACH_CHARACTERS = 200000, FILE_MAX = 64 * 1024 * 1024;

// A file of an export, line by line: JSON with key and value, or key_base64 and value_base64.
function Import({ topic }) {
  const [done, setDone] = useState(null);
  const stopped = useRef(false);
  const { act, busy, error } = useAction(async (file) => {
    stopped.current = false;
    setDone(null);
    if (file.size > FILE_MAX) throw new Error(`The file has ${bytes(file.size)}, at most ${bytes(FILE_MAX)} are imported here: use barnabas produce`);
    const lines = (await file.text()).split("\n");
    let records = [], size = 0, sent = 0;
    const send = async () => {
      if (records.length) await post("messages/import", { topic, records });
      sent += records.length;
      records = []; size = 0;
      setDone(sent);
    };
    for (let at = 0; at < lines.length && !stopped.current; at += 1) {
      if (!lines[at].trim()) continue;
      let record;
      try { record = JSON.parse(lines[at]); } catch { throw new Error(`Line ${at + 1} is no JSON; ${sent} records before it are produced`); }
      if (record && record.problem) throw new Error(`Line ${at + 1} tells of records that the export could not read: take it out to import the rest; ${sent} records before it are produced`);
      if (size + lines[at].length > EACH_CHARACTERS) await send();
      const { key, value, key_base64, value_base64, headers } = record;
      records.push({ key, value, key_base64, value_base64, headers: headers || [] });
      size += lines[at].length;
      if (records.length === EACH) await send();
    }
    if (!stopped.current) await send();
    say(`Imported ${count(sent)} records`);
  });
  return html`<section class="sheet"><h2>Import</h2>
    <${Field} label="A file with a record a line, as Export writes it" hint="Partitions go by the key, and times are now"><input type="file" accept=".ndjson,.jsonl,.json,.txt" disabled=${busy} onChange=${(event) => { if (event.target.files.length) act(event.target.files[0]); event.target.value = ""; }} /><//>
    <${Problem} error=${error} />
    ${done !== null && html`<p class="fine" role="status">${count(done)} records are durable.</p>`}
    ${busy && html`<div class="buttons"><button type="button" class="quiet" onClick=${() => { stopped.current = true; }}>Stop</button></div>`}</section>`;
}
