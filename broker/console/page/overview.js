import { html, useState, useEffect, useRef, useShared, useLoad, count, short, bytes, span, to, Page, Table, Empty, Problem, Loading, Bar } from "/assets/kit.js";
import { Chart, prepare } from "/assets/charts.js";

const KEPT = { "15m": 900, "24h": 1440 };

// The broker's history, and in the short range the newest row of each event behind it.
function useHistory(range) {
  const { overview } = useShared();
  const { data, error, load } = useLoad("history", { range }, range === "24h" ? 60 : 0);
  const [grown, setGrown] = useState(null);
  const seen = useRef(0);
  useEffect(() => {
    if (!data || data.step_s !== (range === "15m" ? 1 : 60)) return;
    const series = data.series, size = series.records_in.length;
    const times = Array.from({ length: size }, (_, at) => data.last_ms / 1000 - (size - 1 - at) * data.step_s);
    seen.current = data.last_ms;
    setGrown({ range, times, series });
  }, [data]);
  useEffect(() => {
    if (!overview || !overview.rates || range !== "15m" || overview.sampled_ms <= seen.current) return;
    if (overview.sampled_ms - seen.current > 5000 && seen.current) { seen.current = overview.sampled_ms; load(); return; }
    seen.current = overview.sampled_ms;
    setGrown((before) => {
      if (!before || before.range !== range) return before;
      const series = {};
      for (const name of Object.keys(before.series)) series[name] = [...before.series[name], overview.rates[name]].slice(-KEPT[range]);
      return { range, times: [...before.times, overview.sampled_ms / 1000].slice(-KEPT[range]), series };
    });
  }, [overview]);
  return { history: grown && grown.range === range ? grown : null, error, load };
}

const rate = (value) => `${short(value)}/s`;
const flow = (value) => `${bytes(value)}/s`;
const millis = (value) => `${value >= 100 ? Math.round(value) : Number(value.toFixed(value < 1 ? 2 : 1))} ms`;
const percent = (value) => `${Math.round(value * 100)} %`;

export function Overview() {
  const { overview, refusal } = useShared();
  const [range, setRange] = useState("15m");
  const { history, error, load } = useHistory(range);
  useEffect(prepare, []);
  const now = overview && overview.rates;
  const columns = (...names) => [history.times, ...names.map((name) => history.series[name])];
  const ranges = html`<div class="choice" role="group" aria-label="Range">${[["15m", "15 min"], ["24h", "24 h"]].map(([name, title]) => html`
    <button aria-pressed=${range === name} onClick=${() => setRange(name)}>${title}</button>`)}</div>`;
  return html`<${Page} title="Overview" lead=${overview && html`<span class=${`dot ${overview.state}`}></span>${overview.state === "running" ? "Running" : "Stopping"} for ${span((overview.now_ms - overview.started_ms) / 1000)}${overview.read_only ? ", read-only" : ""}`} actions=${ranges}>
    <${Problem} error=${error || !overview && refusal} load=${error && load} />
    ${overview && overview.notices.map((one) => html`<section class=${`notice ${one.level}`}><strong>${one.title}</strong><p>${one.advice}</p></section>`)}
    ${!overview && !error && !refusal && html`<${Loading} />`}
    ${overview && html`<dl class="figures">
      <div><dt>Topics</dt><dd><a href="#/topics">${count(overview.topics)}</a></dd></div>
      <div><dt>Partitions</dt><dd>${count(overview.partitions)}</dd></div>
      <div><dt>Groups</dt><dd><a href="#/groups">${count(overview.groups)}</a></dd></div>
      <div><dt>Connections</dt><dd><a href="#/clients">${count(overview.connections)}</a></dd></div>
      <div><dt>On disk</dt><dd><a href="#/disk">${bytes(overview.disk.log_bytes)}</a></dd></div>
      <div><dt>Memory</dt><dd>${bytes(overview.resident_bytes)}</dd></div></dl>`}
    ${history && now && html`<div class="charts">
      <${Chart} key=${`a${range}`} title="Records in" value=${rate(now.records_in)} format=${rate} lines=${[["records", "--c1"]]} data=${columns("records_in")} />
      <${Chart} key=${`b${range}`} title="Bytes" value=${`${flow(now.bytes_in)} in`} format=${flow} binary lines=${[["in", "--c1"], ["out", "--c2"]]} data=${columns("bytes_in", "bytes_out")} />
      <${Chart} key=${`c${range}`} title="Requests" value=${rate(now.requests)} format=${rate} lines=${[["all", "--c1"], ["produce", "--c2"], ["fetch", "--c3"]]} data=${columns("requests", "produce_requests", "fetch_requests")} />
      <${Chart} key=${`d${range}`} title="fsync" value=${`p99 ${millis(now.fsync_p99_ms)}`} format=${millis} lines=${[["p50", "--c1"], ["p99", "--c3"]]} data=${columns("fsync_p50_ms", "fsync_p99_ms")} />
      <${Chart} key=${`e${range}`} title="Loop busy" value=${percent(now.loop_busy)} format=${percent} max=${1} lines=${[["busy", "--c1"]]} data=${columns("loop_busy")} />
      <${Chart} key=${`f${range}`} title="Memory" value=${bytes(now.resident_bytes)} format=${bytes} binary lines=${[["resident", "--c1"]]} data=${columns("resident_bytes")} /></div>`}
    <div class="pair"><${LargestTopics} /><${LaggingGroups} /></div>
    ${overview && html`<${Identity} overview=${overview} />`}<//>`;
}

function LargestTopics() {
  const { data } = useLoad("topics", { sort: "bytes", limit: 6 }, 5);
  if (!data) return null;
  const most = Math.max(1, ...data.topics.map((one) => one.bytes));
  return html`<section><h2>Largest topics</h2><${Table} caption="Largest topics" columns=${[["Topic"], ["Records/s", "number wide"], ["Size", "number"], [html`<span class="sr">Share</span>`, "share wide"]]}
    rows=${data.topics.map((one) => [html`<a href=${to("topics", one.name)}>${one.name}</a>`, short(one.rate), bytes(one.bytes), html`<${Bar} share=${one.bytes / most} label=${`${Math.round(100 * one.bytes / most)} % of the largest`} />`])}
    empty=${html`<${Empty} title="No topics yet">A producer creates one with its first record, or <a href="#/topics">create one</a>.<//>`} /></section>`;
}
function LaggingGroups() {
  const { data } = useLoad("groups", { limit: 6 }, 5);
  if (!data) return null;
  return html`<section><h2>Groups by lag</h2><${Table} caption="Groups by lag" columns=${[["Group"], ["State", "wide"], ["Lag", "number"]]}
    rows=${data.groups.map((one) => [html`<a href=${to("groups", one.group_id)}>${one.group_id}</a>`, one.state, count(one.lag)])}
    empty=${html`<${Empty} title="No groups yet">A consumer with a group.id shows up here.<//>`} /></section>`;
}
function Identity({ overview }) {
  return html`<section class="identity"><h2>This broker</h2><dl class="facts">
    <div><dt>Listeners</dt><dd class="mono">${overview.listeners.join(", ")}</dd></div>
    <div><dt>Cluster id</dt><dd class="mono">${overview.cluster_id}</dd></div>
    <div><dt>Disk</dt><dd>${bytes(overview.disk.free_bytes)} free${overview.disk.full_in_s !== null ? `, full in ${span(overview.disk.full_in_s)} at this pace` : ""}</dd></div>
    <div><dt>Open transactions</dt><dd><a href="#/transactions">${count(overview.transactions_open)}</a></dd></div></dl></section>`;
}
