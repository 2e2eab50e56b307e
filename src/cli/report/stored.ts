// The report of a job of the store.

import type { AttemptView, Client, JobView, Ref } from '../../app/client.ts';
import { reasonPhrases } from '../../app/format.ts';
import { describeEvent, withoutRepeatedLosses } from '../../app/history.ts';
import { manifestFile } from '../../app/job-folder.ts';
import { jsonText, viewJson } from '../../app/json.ts';
import { readOptional } from '../../app/settings.ts';
import { workdirAbout, workdirDiff } from '../../app/workdir.ts';
import { formatWorker } from '../../core/model/spec.ts';
import type { PageAttempt, PageText } from '../../reports/job-page.ts';
import type { Cli } from '../context.ts';
import { factRows } from '../render/show.ts';
import {
  endOfLog,
  documentOf,
  lastLines,
  pageCost,
  usageTimeline,
  type JobReport,
  type ReportFile,
} from './job-report.ts';

/** Rows that the head of the page has, and the path of the files. */
const headings: readonly string[] = ['why', 'because', 'files'];

/** Logs of more workers repeat each other. */
const maxPageLogs = 8;
const maxBundleLogs = 100;

export async function storedReport(cli: Cli, client: Client, ref: Ref): Promise<JobReport> {
  const { io, screen } = cli;
  // Resolve the name once: it may mean another job later.
  const view = await client.show(ref, { isKept: true });
  const now = io.now();
  const [events, usage, logs, manifest, documents, allLogs] = await Promise.all([
    client.events(view.id, 0),
    client.usage({ jobs: [view.id] }),
    pageLogs(client, view),
    readOptional(manifestFile(view.folder)),
    workdirFiles(view),
    logFiles(client, view),
  ]);
  const attempts = view.attempts.map(({ attempt, createdAt }) => ({ at: createdAt, name: String(attempt) }));
  const layout = { columns: null, styler: screen.styleOut, unicode: true, now, isKept: true };
  return {
    page: {
      id: view.id,
      name: view.name,
      owner: view.owner,
      phase: view.phase,
      message: view.why.message,
      evidence: view.why.evidence,
      facts: factRows(view, layout).filter(([label]) => !headings.includes(label)),
      timeline: usageTimeline(usage, attempts, now),
      attempts: view.attempts.map((attempt) => pageAttempt(view, attempt)),
      cost: pageCost(usage, now),
      history: withoutRepeatedLosses(events.map(({ event }) => event)).map((event) => ({
        at: event.at,
        message: describeEvent(event, view),
      })),
      logs,
      documents: [
        ...(manifest === undefined ? [] : [documentOf('Manifest', manifest)]),
        ...documents
          .filter(({ name }) => name.endsWith('.diff'))
          .map(({ name, text }) => documentOf(`Changes of the working directory (${name})`, text)),
      ],
      notes: view.hasFiles ? [] : ['The files of the job were removed with `jobman clean`, so there are no logs.'],
    },
    files: [
      { name: 'job.json', text: `${jsonText(viewJson(view), 2)}\n` },
      { name: 'events.jsonl', text: events.map(({ seq, event }) => `${jsonText({ seq, ...event })}\n`).join('') },
      { name: 'usage.jsonl', text: usage.map((row) => `${jsonText(row)}\n`).join('') },
      ...(manifest === undefined ? [] : [{ name: 'manifest.yaml', text: manifest }]),
      ...documents,
      ...allLogs,
    ],
    secrets: { folder: view.folder, command: view.spec.command },
    exitCode: 0,
  };
}

function pageAttempt(view: JobView, attempt: AttemptView): PageAttempt {
  const { startMode, startedBy, createdAt, endedAt, allocation, reason, evidence } = attempt;
  const held = view.allocations.find((one) => one.allocation === allocation);
  return {
    name: String(attempt.attempt),
    startMode: `${startMode}, by ${startedBy === 'owner' ? 'the owner' : 'a rule'}`,
    from: createdAt,
    until: endedAt,
    capacity: `${allocation}${held === undefined ? '' : ` (${held.name})`}`,
    reason: reason === null ? null : reasonPhrases[reason],
    evidence: evidence === null ? null : [evidence.message, evidence.line].filter(Boolean).join(': '),
  };
}

/** The newest attempt's logs, and those of the step that failed in it. */
async function pageLogs(client: Client, view: JobView): Promise<readonly PageText[]> {
  const outputs = view.attempt === 0 ? [] : await client.logs(view.id, {});
  const steps =
    view.attempts.at(-1)?.reason === 'setup_failed'
      ? await Promise.all(view.spec.steps.map(({ name }) => client.logs(view.id, { step: name })))
      : [];
  const own = await client.logs(view.id, { step: 'job' });
  const shown = [...outputs.slice(0, maxPageLogs), ...steps.flat().slice(0, maxPageLogs), ...own];
  const pages = await Promise.all(
    shown.map(async (log, index) => {
      const { id, worker, attempt } = log;
      const text = lastLines(await endOfLog(client, log));
      const of = attempt === null ? `${id}.log` : `Attempt ${attempt}`;
      const title = `${of}${worker === null || attempt === null ? '' : `, ${formatWorker(worker)}`}: last lines`;
      return text === '' ? [] : [{ title, text, isOpen: index === 0 }];
    }),
  );
  return pages.flat();
}

/** Facts and changes of each copy of the working directory. */
async function workdirFiles({ workdirCopies }: JobView): Promise<readonly ReportFile[]> {
  const files = await Promise.all(
    workdirCopies.flatMap(({ copy, folder }) =>
      [
        [`workdir/${copy}/about.json`, workdirAbout(folder)] as const,
        [`workdir/${copy}/changes.diff`, workdirDiff(folder)] as const,
      ].map(async ([name, path]) => ({ name, text: await readOptional(path) })),
    ),
  );
  return files.flatMap(({ name, text }) => (text === undefined ? [] : [{ name, text }]));
}

/** The end of every log. */
async function logFiles(client: Client, view: JobView): Promise<readonly ReportFile[]> {
  const all = await client.logs(view.id, { all: true });
  return Promise.all(
    all.slice(0, maxBundleLogs).map(async (log) => ({ name: `logs/${log.id}.log`, text: await endOfLog(client, log) })),
  );
}
