import { html, useState, useAction, post, say, count, to, Problem, Field } from "/assets/kit.js";

function begun() {
  const found = sessionStorage.getItem("again");
  sessionStorage.removeItem("again");
  try { return found ? JSON.parse(found) : {}; } catch { return {}; }
}

export function Produce({ topic, partitions }) {
  const [first] = useState(begun);
  const [key, setKey] = useState(first.key || "");
  const [hasKey, setHasKey] = useState(!first.nokey);
  const [value, setValue] = useState(first.value || "");
  const [isNull, setNull] = useState(false);
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState((first.headers || []).map(([name, text]) => `${name}: ${text}`).join("\n"));
  const [made, setMade] = useState(null);
  const { act, busy, error } = useAction(async () => {
    setMade(null);
    const pairs = headers.split("\n").filter((line) => line.trim()).map((line) => { const at = line.indexOf(":"); return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]; });
    const found = await post("messages/produce", { topic, key: hasKey && key !== "" ? key : null, value: isNull ? null : value, headers: pairs, partition: partition === "" ? -1 : Number(partition) });
    setMade(found);
    say(`Produced to partition ${found.partition}, offset ${found.offset}`);
  });
  return html`<form class="sheet" onSubmit=${(event) => { event.preventDefault(); act(); }}>
    <div class="row2"><${Field} label="Key" hint="Empty: no key" kind="grow"><input class="mono" value=${key} onInput=${(event) => { setHasKey(true); setKey(event.target.value); }} /><//>
      <${Field} label="Partition" hint="By the key, as Java's client"><select value=${partition} onChange=${(event) => setPartition(event.target.value)}><option value="">Automatic</option>${Array.from({ length: Math.min(partitions, 1000) }, (_, at) => html`<option value=${at}>${at}</option>`)}</select><//></div>
    <${Field} label="Value"><textarea class="mono" rows="10" disabled=${isNull} value=${isNull ? "" : value} onInput=${(event) => setValue(event.target.value)}></textarea><//>
    <${Field} label="Null value, a tombstone" kind="check"><input type="checkbox" checked=${isNull} onChange=${(event) => setNull(event.target.checked)} /><//>
    <${Field} label="Headers" hint="One a line, name: value"><textarea class="mono" rows="2" value=${headers} onInput=${(event) => setHeaders(event.target.value)}></textarea><//>
    <${Problem} error=${error} />
    ${made && html`<p class="fine" role="status">Durable in partition ${made.partition} at offset ${count(made.offset)}. <a href=${to("topics", topic, "messages")}>Show it</a></p>`}
    <div class="buttons"><button class="main" disabled=${busy}>${busy ? "Producing …" : "Produce"}</button></div></form>`;
}
