// The parts of a report that only a job of the store has.

import type { AttemptView, Client, JobView } from '../../app/client.ts';
import { reasonPhrases } from '../../app/format.ts';
import { jsonText } from '../../app/json.ts';
import { formatWorker } from '../../core/model/spec.ts';
import type { Instant } from '../../core/model/time.ts';
import type { PageAttempt, PageText } from '../../reports/job-page.ts';
import type { UsageRow } from '../../reports/usage.ts';
import { documentOf, endOfLog, lastLines, usageTimeline, type ReportFile, type ReportParts } from './report-parts.ts';

/** Logs of more workers repeat each other. */
const maxPageLogs = 8;
const maxBundleLogs = 100;

export async function storedParts(
  client: Client,
  view: JobView,
  usage: readonly UsageRow[],
  now: Instant,
): Promise<ReportParts> {
  const [{ passes }, logs, manifest, documents, allLogs] = await Promise.all([
    client.passes(view.id, {}),
    pageLogs(client, view),
    client.manifest(view.id),
    workdirFiles(client, view),
    logFiles(client, view),
  ]);
  const attempts = view.attempts.map(({ attempt, createdAt }) => ({ at: createdAt, name: String(attempt) }));
  return {
    timeline: usageTimeline(usage, attempts, now),
    attempts: view.attempts.map((attempt) => pageAttempt(view, attempt)),
    logs,
    documents: [
      ...(manifest === null ? [] : [documentOf('Manifest', manifest)]),
      ...documents
        .filter(({ name }) => name.endsWith('.diff'))
        .map(({ name, text }) => documentOf(`Changes of the working directory (${name})`, text)),
    ],
    notes: view.hasFiles ? [] : ['The files of the job were removed with `jobman clean`, so there are no logs.'],
    files: [
      { name: 'passes.jsonl', text: passes.map((pass) => `${jsonText(pass)}\n`).join('') },
      ...(manifest === null ? [] : [{ name: 'manifest.yaml', text: manifest }]),
      ...documents,
      ...allLogs,
    ],
    secrets: { owner: view.owner, id: view.id, command: view.spec.command },
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
async function workdirFiles(client: Client, { id, workdirCopies }: JobView): Promise<readonly ReportFile[]> {
  const files = await Promise.all(
    workdirCopies.map(async ({ folder: _folder, ...about }) => {
      const changes = await client.workdirChanges(id, about.copy);
      return [
        { name: `workdir/${about.copy}/about.json`, text: `${JSON.stringify(about, null, 2)}\n` },
        ...(changes === null ? [] : [{ name: `workdir/${about.copy}/changes.diff`, text: changes }]),
      ];
    }),
  );
  return files.flat();
}

/** The end of every log. */
async function logFiles(client: Client, view: JobView): Promise<readonly ReportFile[]> {
  const all = await client.logs(view.id, { all: true });
  return Promise.all(
    all.slice(0, maxBundleLogs).map(async (log) => ({ name: `logs/${log.id}.log`, text: await endOfLog(client, log) })),
  );
}
