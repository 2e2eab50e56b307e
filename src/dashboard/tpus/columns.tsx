// The columns of the list of TPUs, and its two lines on a narrow screen.

import { useComputed } from '@preact/signals';
import { escapeLine, formatUsd } from '../../app/format.ts';
import { idleCostOf, type KnownTpu } from '../../app/known-tpus.ts';
import { formatHourlyPrice } from '../../app/tpu-phrases.ts';
import { now } from '../clock.ts';
import { pageHref } from '../location.ts';
import type { Column } from '../parts/table.tsx';
import { Age } from '../parts/time.tsx';

/** A TPU as the page shows it. */
export interface TpuLine {
  readonly tpu: KnownTpu;
  readonly aliases: readonly string[];
  /** True if the newest list of the clouds lacks it. */
  readonly isOld: boolean;
  /** True if a command of jobman can release it, and no program of a job runs on it. */
  readonly isReleasable: boolean;
}

export function tpuColumns(open: (line: TpuLine) => void): readonly Column<TpuLine>[] {
  return [
    { name: 'name', title: 'Name', cell: (line) => <Name line={line} /> },
    { name: 'zone', title: 'Zone', width: '9.5rem', wide: true, cell: ({ tpu }) => escapeLine(tpu.zone) },
    { name: 'type', title: 'Type', width: '10.5rem', cell: ({ tpu }) => formatType(tpu) },
    { name: 'use', title: 'Use', width: '5rem', cell: ({ tpu }) => <Use tpu={tpu} /> },
    { name: 'state', title: 'State', width: '11rem', wide: true, cell: (line) => <State line={line} /> },
    { name: 'user', title: 'Held by', width: '7rem', wide: true, cell: ({ tpu }) => escapeLine(tpu.user) },
    { name: 'job', title: 'Job', width: '5rem', cell: ({ tpu }) => <JobLink tpu={tpu} /> },
    { name: 'idle', title: 'Idle for', width: '5.5rem', align: 'right', cell: ({ tpu }) => <IdleFor tpu={tpu} /> },
    {
      name: 'cost',
      title: 'Idle cost',
      width: '6rem',
      align: 'right',
      wide: true,
      cell: ({ tpu }) => <IdleCost tpu={tpu} />,
    },
    { name: 'price', title: 'Price', width: '7rem', align: 'right', cell: ({ tpu }) => formatHourlyPrice(tpu) },
    {
      name: 'open',
      title: 'Action',
      width: '7rem',
      wide: true,
      cell: (line) => (
        <button class="plain" aria-label={`${actionOf(line)} ${escapeLine(line.tpu.name)}`} onClick={() => open(line)}>
          {actionOf(line)}
        </button>
      ),
    },
  ];
}

function actionOf({ isReleasable }: TpuLine): string {
  return isReleasable ? 'Release…' : 'Details…';
}

export function TpuLines({ line }: { readonly line: TpuLine }) {
  const { tpu } = line;
  return (
    <div class="row-lines">
      <span class="line">
        <Name line={line} />
      </span>
      <Use tpu={tpu} />
      <span class="line quiet">
        {formatType(tpu)} · {escapeLine(tpu.user)} · <State line={line} />
      </span>
      <span class="quiet">
        {tpu.idleSinceAt === null ? formatHourlyPrice(tpu) : <IdleFor tpu={tpu} />}
        {tpu.idleSinceAt !== null && (
          <>
            {' '}
            · <IdleCost tpu={tpu} />
          </>
        )}
      </span>
    </div>
  );
}

function Name({ line: { tpu, aliases } }: { readonly line: TpuLine }) {
  const text = escapeLine(tpu.name);
  return (
    <span title={text}>
      {text}
      {aliases.map((alias) => (
        <span key={alias} class="alias">
          {escapeLine(alias)}
        </span>
      ))}
    </span>
  );
}

export function formatType({ accelerator, pricing }: Pick<KnownTpu, 'accelerator' | 'pricing'>): string {
  return escapeLine(`${accelerator ?? '?'} ${pricing}`);
}

function Use({ tpu: { use } }: { readonly tpu: KnownTpu }) {
  return <span class={`use-${use}`}>{use}</span>;
}

/** Google's state, with its age if the newest list lacks it. */
function State({ line: { tpu, isOld } }: { readonly line: TpuLine }) {
  return (
    <>
      <span title={escapeLine(tpu.state ?? '')}>{escapeLine(tpu.state ?? '-')}</span>
      {isOld && tpu.checkedAt !== null && (
        <span class="quiet">
          {' '}
          <Age at={tpu.checkedAt} /> ago
        </span>
      )}
    </>
  );
}

export function JobLink({ tpu: { job } }: { readonly tpu: Pick<KnownTpu, 'job'> }) {
  if (job === null) return <>-</>;
  // The job of an orphan may be deleted.
  if (job.name === null) return <>{job.id}</>;
  return (
    <a href={pageHref(['jobs', job.id])} title={escapeLine(job.name)}>
      {job.id}
    </a>
  );
}

function IdleFor({ tpu: { idleSinceAt, use } }: { readonly tpu: KnownTpu }) {
  if (idleSinceAt !== null) return <Age at={idleSinceAt} />;
  // People may use the TPU of another owner over SSH.
  return <>{use === 'held' ? '?' : '-'}</>;
}

function IdleCost({ tpu }: { readonly tpu: KnownTpu }) {
  const text = useComputed(() => {
    const cost = idleCostOf(tpu, now.value);
    return cost === null ? '-' : formatUsd(cost);
  });
  return <>{text}</>;
}
