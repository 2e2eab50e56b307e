// The page of `jobman report`: one HTML file about one job, which needs no network and runs no script. Every value is
// escaped where it is inserted, and the page forbids scripts and requests (Content-Security-Policy), so that nothing
// from a log, a manifest or a name can become markup.

import { createHash } from 'node:crypto';
import { html, raw } from 'hono/html';
import { hour, minute, second, day as oneDay, type Duration, type Instant } from '../core/model/time.ts';
import { plotSvg, type Plot } from './job-plot.ts';
import { formatTime, timelineSvg, timelineLegend, type Timeline } from './job-timeline.ts';

export interface JobPage {
  /** The id of a stored job, otherwise its name. */
  readonly id: string;
  readonly name: string;
  /** Null if another tool made it. */
  readonly owner: string | null;
  readonly phase: string;
  /** The reason for the phase, and the evidence. */
  readonly message: string;
  readonly evidence: string | null;
  /** Labels and values, in order. */
  readonly facts: readonly Fact[];
  readonly timeline: Timeline | null;
  readonly attempts: readonly PageAttempt[];
  /** Null without usage. */
  readonly cost: PageCost | null;
  readonly plots: readonly Plot[];
  readonly history: readonly { readonly at: Instant; readonly message: string }[];
  /** The ends of logs. */
  readonly logs: readonly PageText[];
  /** The manifest, the Job object, the differences of the working directory from its commit. */
  readonly documents: readonly PageText[];
  /** The missing parts of the page, each with the reason. */
  readonly notes: readonly string[];
  readonly madeAt: Instant;
  /** Of jobman. */
  readonly version: string;
}

type Fact = readonly [label: string, value: string];

export interface PageText {
  readonly title: string;
  readonly text: string;
  /** Shown without a click. */
  readonly isOpen: boolean;
}

/** A start of the program: an attempt, or a pod of a cluster. */
export interface PageAttempt {
  readonly name: string;
  readonly startMode: string;
  readonly from: Instant;
  /** Null: it continues. */
  readonly until: Instant | null;
  readonly capacity: string;
  /** `preempted`; null while it runs. */
  readonly reason: string | null;
  readonly evidence: string | null;
}

interface PageCost {
  readonly rows: readonly { readonly use: string; readonly time: string; readonly estimate: string }[];
  readonly note: string;
}

/** The whole file. */
export async function jobPage(page: JobPage): Promise<string> {
  const { id, name, phase, madeAt, version } = page;
  const title = id === name ? name : `${id} ${name}`;
  const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'`;
  const document = await html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${policy}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="referrer" content="no-referrer" />
        <title>${title}: ${phase}</title>
        ${styleElement()}
      </head>
      <body>
        <header>
          <h1>${title} <span class="phase ${phaseClass(phase)}">${phase}</span></h1>
          <p class="quiet">State at ${formatTime(madeAt)} UTC.</p>
          <p class="why">${page.message}</p>
          ${page.evidence === null ? '' : html`<p class="quiet">Because: ${page.evidence}</p>`}
        </header>
        <main>
          ${factSection(page)} ${page.timeline === null ? '' : timelineSection(page.timeline)} ${attemptSection(page)}
          ${page.cost === null ? '' : costSection(page.cost)}
          ${
            page.plots.length === 0
              ? ''
              : html`<section>
                  <h2>Metrics</h2>
                  ${page.plots.map((plot) => html`<div class="wide">${plotSvg(plot)}</div>`)}
                </section>`
          }
          ${textSection('Log', page.logs, 'tail')} ${historySection(page)}
          ${textSection('Documents', page.documents, 'whole')}
        </main>
        <footer>
          ${page.notes.map((note) => html`<p>${note}</p>`)}
          <p>Made by jobman ${version}.</p>
        </footer>
      </body>
    </html> `;
  return String(document);
}

/** In one piece: the hash in the policy is that of exactly this text. */
function styleElement(): ReturnType<typeof raw> {
  return raw(`<style>${style}</style>`);
}

type Markup = ReturnType<typeof html>;

function factSection({ facts, owner }: JobPage): Markup {
  const all: readonly Fact[] = [['owner', owner ?? 'made by another tool'], ...facts];
  // A fact without a label is a further line of the one before.
  const starts = all.flatMap(([label], index) => (label === '' ? [] : [index]));
  const whole = starts.map((start, index) => all.slice(start, starts[index + 1]));
  return html`<section>
    <h2>Job</h2>
    <dl>
      ${whole.map(
        (lines) =>
          html`<div>
            <dt>${lines[0]?.[0]}</dt>
            <dd>${lines.map(([, value]) => value).join('\n')}</dd>
          </div>`,
      )}
    </dl>
  </section>`;
}

function timelineSection(timeline: Timeline): Markup {
  return html`<section>
    <h2>Timeline</h2>
    <p class="quiet">Times are in UTC.</p>
    <div class="wide">${timelineSvg(timeline)}</div>
    <ul class="legend">
      ${timelineLegend(timeline).map(({ kind, label }) => html`<li><span class="swatch ${kind}"></span>${label}</li>`)}
    </ul>
  </section>`;
}

function attemptSection({ attempts, madeAt }: JobPage): Markup {
  if (attempts.length === 0)
    return html`<section>
      <h2>Attempts</h2>
      <p class="quiet">None has begun.</p>
    </section>`;
  return html`<section>
    <h2>Attempts</h2>
    <div class="wide">
      <table>
        <thead>
          <tr>
            <th>Attempt</th>
            <th>Start</th>
            <th>From (UTC)</th>
            <th class="number">Lasted</th>
            <th>Allocation</th>
            <th>End</th>
          </tr>
        </thead>
        <tbody>
          ${attempts.map(
            ({ name, startMode, from, until, capacity, reason, evidence }) =>
              html`<tr>
                <td>${name}</td>
                <td>${startMode}</td>
                <td class="time">${formatTime(from)}</td>
                <td class="number">${formatLength((until ?? madeAt) - from)}</td>
                <td>${capacity}</td>
                <td>
                  ${reason === null ? html`<span class="quiet">continues</span>` : html`<b>${reason}</b>`}${
                    evidence === null ? '' : html`<div class="quiet">${evidence}</div>`
                  }
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

function costSection({ rows, note }: PageCost): Markup {
  return html`<section>
    <h2>Cost</h2>
    <table class="narrow">
      <thead>
        <tr>
          <th>Use of the capacity</th>
          <th class="number">Time</th>
          <th class="number">Estimate</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ use, time, estimate }) =>
            html`<tr>
              <td>${use}</td>
              <td class="number">${time}</td>
              <td class="number">${estimate}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    <p class="quiet">${note}</p>
  </section>`;
}

function historySection({ history }: JobPage): Markup {
  return html`<section>
    <h2>History</h2>
    <details>
      <summary>${history.length} events, with times in UTC</summary>
      <ol class="history">
        ${history.map(({ at, message }) => html`<li><span class="time">${formatTime(at)}</span> ${message}</li>`)}
      </ol>
    </details>
  </section>`;
}

/** `tail`: scrolled to its end. */
function textSection(title: string, texts: readonly PageText[], kind: 'tail' | 'whole'): Markup | string {
  if (texts.length === 0) return '';
  return html`<section>
    <h2>${title}</h2>
    ${texts.map((one) => {
      const inside = html`<summary>${one.title}</summary>
        <pre class="${kind}">${one.text}</pre>`;
      return one.isOpen ? html`<details open>${inside}</details>` : html`<details>${inside}</details>`;
    })}
  </section>`;
}

function phaseClass(phase: string): string {
  if (phase === 'succeeded' || phase === 'running') return 'good';
  return phase === 'failed' ? 'bad' : 'other';
}

/** `2h 05m`. */
function formatLength(length: Duration): string {
  const past = Math.max(0, length);
  if (past < minute) return `${Math.floor(past / second)}s`;
  if (past < hour) return `${Math.floor(past / minute)}m ${Math.floor((past % minute) / second)}s`;
  if (past < oneDay) return `${Math.floor(past / hour)}h ${Math.floor((past % hour) / minute)}m`;
  return `${Math.floor(past / oneDay)}d ${Math.floor((past % oneDay) / hour)}h`;
}

/** No attribute `style` anywhere: the policy allows this text only. */
const style = `
:root {
  --back: #ffffff; --panel: #f6f7f9; --text: #1b1f24; --quiet: #5c6570; --line: #d8dde3;
  --useful: #2e8b57; --lost: #c8453b; --setup: #3b76c4; --idle: #d59b1c; --kept: #8659b5; --waiting: #b4bcc6; --run: #2e8b57;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --back: #14171b; --panel: #1c2026; --text: #e3e7ec; --quiet: #99a3af; --line: #343b44;
    --useful: #4fb37c; --lost: #e5756c; --setup: #6ba1e8; --idle: #e0b04a; --kept: #ae88d8; --waiting: #5a6470; --run: #4fb37c;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 70rem; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 0 0 .6rem; }
section { margin: 1.8rem 0; }
.why { margin: .2rem 0; font-size: 1.05rem; }
.quiet, footer { color: var(--quiet); }
.phase { font-size: .95rem; font-weight: 600; padding: .15rem .6rem; border-radius: 1rem; border: 1px solid currentColor; vertical-align: middle; white-space: nowrap; }
.phase.good { color: var(--useful); }
.phase.bad { color: var(--lost); }
.phase.other { color: var(--setup); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(28rem, 100%), 1fr)); gap: .1rem 2rem; margin: 0; }
dl div { display: flex; gap: .8rem; border-bottom: 1px solid var(--line); padding: .25rem 0; }
dt { color: var(--quiet); flex: 0 0 7.5rem; }
dd { margin: 0; min-width: 0; white-space: pre-line; }
table { border-collapse: collapse; width: 100%; }
table.narrow { width: auto; min-width: 22rem; }
th { text-align: left; white-space: nowrap; color: var(--quiet); font-weight: 500; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { min-width: 4rem; }
th.number, td.number { text-align: right; padding-right: 1.8rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
.wide table { min-width: 46rem; overflow-wrap: normal; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; margin: .4rem 0; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
svg text.label { fill: var(--text); }
svg line, svg path.frame { stroke: var(--line); }
svg polyline { fill: none; stroke: var(--setup); stroke-width: 1.5; stroke-linejoin: round; }
svg line.attempt { stroke: var(--quiet); stroke-dasharray: 4 3; }
rect.useful { fill: var(--useful); } rect.lost { fill: var(--lost); } rect.setup { fill: var(--setup); } rect.idle { fill: var(--idle); }
rect.kept { fill: var(--kept); } rect.waiting { fill: var(--waiting); } rect.run { fill: var(--run); } rect.ended { fill: var(--lost); }
svg circle { fill: var(--setup); }
svg polyline.even { stroke: var(--kept); }
svg circle.even { fill: var(--kept); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; list-style: none; padding: 0; margin: .3rem 0; color: var(--quiet); }
.swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem; vertical-align: -1px; }
.swatch.useful { background: var(--useful); } .swatch.lost { background: var(--lost); } .swatch.setup { background: var(--setup); }
.swatch.idle { background: var(--idle); } .swatch.kept { background: var(--kept); } .swatch.waiting { background: var(--waiting); }
.swatch.run { background: var(--run); } .swatch.ended { background: var(--lost); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; background: var(--panel); }
summary { padding: .4rem .8rem; cursor: pointer; }
pre { margin: 0; padding: .6rem .8rem; overflow: auto; max-height: 32rem; border-top: 1px solid var(--line); font: 12.5px/1.45 ui-monospace, monospace; white-space: pre-wrap; }
pre.tail { display: flex; flex-direction: column-reverse; }
.history { margin: 0; padding: .4rem .8rem .6rem; list-style: none; border-top: 1px solid var(--line); }
.history li { padding: .1rem 0; }
.history .time { color: var(--quiet); margin-right: .8rem; }
footer { border-top: 1px solid var(--line); padding-top: .6rem; font-size: .9rem; }
footer p { margin: .2rem 0; }
@media print {
  body { padding: 0; }
  /* The text of a closed part, and the colours of the legend. */
  details::details-content { content-visibility: visible; block-size: auto; }
  details { border: none; background: none; }
  .swatch { print-color-adjust: exact; }
  pre, pre.tail { display: block; max-height: none; }
  svg, tr, h2, summary { break-inside: avoid; }
  h2, summary { break-after: avoid; }
}
`;
