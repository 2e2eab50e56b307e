// The data that `report` collects about a job, before secrets are removed.

import { costTable } from '../../app/cost-table.ts';
import { jsonText, detailsJson } from '../../app/json.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { jobCost } from '../../reports/cost.ts';
import type { JobPage } from '../../reports/job-page.ts';
import type { Cli } from '../context.ts';
import { readCode } from '../jobs/resolve.ts';
import { shownEntries } from '../render/history.ts';
import { factRows } from '../render/show.ts';
import { layoutOf } from '../screen.ts';
import type { ReportParts } from './report-parts.ts';

export interface JobReport extends Pick<ReportParts, 'files' | 'secrets'> {
  /** `report` adds the metrics. */
  readonly page: Omit<JobPage, 'madeAt' | 'version' | 'plots'>;
  /** 0 unless the report may be old. */
  readonly exitCode: number;
}

/** Rows that the head of the page has, and the path of the files. */
const headings: readonly string[] = ['why', 'because', 'files'];

/** Throws JobmanError for an absent job. */
export async function collectReport(cli: Cli, jobs: Jobs, job: FoundJob): Promise<JobReport> {
  const client = await cli.services.client();
  const [details, history, { key }] = await Promise.all([
    jobs.show(job, { isKept: true }),
    jobs.history(job),
    jobs.ledgerJob(job),
  ]);
  const usage = await client.usage({ jobs: [key] });
  const layout = { ...layoutOf(cli), columns: null, unicode: true, isKept: true };
  const { now } = layout;
  const record = await jobs.record(job);
  let parts: ReportParts;
  if (details.backend === 'kubernetes' && record !== null) {
    const { clusterParts } = await import('./cluster.ts');
    parts = await clusterParts(client, record, details, now);
  } else if (details.backend !== 'kubernetes') {
    const { storedParts } = await import('./stored.ts');
    parts = await storedParts(client, details, usage, now);
  } else throw new Error(`job ${job.id} has two kinds`);
  const { id, name, owner, phase, why } = details;
  const { timeline, attempts, logs, documents } = parts;
  return {
    page: {
      id,
      name,
      owner,
      phase,
      message: why.message,
      evidence: why.evidence,
      facts: factRows(details, layout).filter(([label]) => !headings.includes(label)),
      timeline,
      attempts,
      cost: usage.length === 0 ? null : costTable(jobCost(usage, now)),
      history: shownEntries(history.entries),
      logs,
      documents,
      notes: [...(job.copy === null ? [] : [job.copy.message]), ...parts.notes],
    },
    files: [
      { name: 'job.json', text: `${jsonText(detailsJson(details), 2)}\n` },
      {
        name: 'events.jsonl',
        text: history.entries.map(({ event, ...entry }) => `${jsonText(event ?? entry)}\n`).join(''),
      },
      { name: 'usage.jsonl', text: usage.map((row) => `${jsonText(row)}\n`).join('') },
      ...parts.files,
    ],
    secrets: parts.secrets,
    exitCode: readCode(job),
  };
}
