// The queue: the jobs that wait, and the reason for each. The address has the scope: everyone's jobs, or one's own.

import { useComputed, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import '../jobs/jobs.css';
import './queue.css';
import { escapeLine, formatDuration, pluralize } from '../../app/format.ts';
import type { QueuedRow, QueueList } from '../../app/queue.ts';
import {
  formatAhead,
  formatBlockedBy,
  formatHostUse,
  formatOrder,
  formatBriefWait,
  noCloudPosition,
} from '../../app/queue-text.ts';
import { second, type Instant } from '../../core/model/time.ts';
import { ownNames } from '../../core/model/user.ts';
import { now } from '../clock.ts';
import { follow, type Followed } from '../follow.ts';
import { jobHref, keyOfJob } from '../jobs/job-key.ts';
import { serverNow } from '../live.ts';
import { address, changeQuery, goTo } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, FilteredOut } from '../parts/messages.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Since } from '../parts/time.tsx';
import { actorOf, client, session } from '../session.ts';

interface State extends Followed {
  readonly value: QueueList | null;
  readonly readAt: Instant | null;
}

const initial: State = { value: null, readAt: null, failure: null };

export function QueuePage() {
  const state = useSignal(initial);
  const turn = useSignal(0);
  useEffect(
    () =>
      follow<State>(
        {
          initial: state.peek(),
          read: async () => ({ value: await client.queue(), readAt: serverNow(), failure: null }),
          isAffected: (_, change) => change.kind === 'event',
          retries: true,
          // The sentences have ages.
          refreshTime: 15 * second,
          pauseTime: second,
        },
        (next) => (state.value = next),
      ),
    [turn.value],
  );
  const isOwn = address.value.query.get('of') === 'mine';
  return (
    <section class="page queue">
      <div class="bar">
        <h1>Queue</h1>
        <div class="toggles joined" role="group" aria-label="Owners">
          <button aria-pressed={isOwn} onClick={() => changeQuery({ of: 'mine' })}>
            Mine
          </button>
          <button aria-pressed={!isOwn} onClick={() => changeQuery({ of: null })}>
            Everyone
          </button>
        </div>
        <PageCommand text="jobman queue" />
      </div>
      <Shown reading={{ ...state.value, again: () => (turn.value += 1) }}>
        {(list) => <Waiting list={list} isOwn={isOwn} />}
      </Shown>
      <Cluster />
    </section>
  );
}

/** Nothing without a cluster. */
function Cluster() {
  const part = useReading(async () => {
    const { isConfigured } = await client.cluster.site();
    return isConfigured ? (await import('./cluster.tsx')).ClusterQueue : () => null;
  }, []);
  return part.value === null && part.failure === null ? null : <Shown reading={part}>{(Part) => <Part />}</Shown>;
}

function Waiting({ list: { rows, more, hosts }, isOwn }: { readonly list: QueueList; readonly isOwn: boolean }) {
  const actor = actorOf(session.value);
  const own = actor === null ? [] : ownNames(actor);
  const shown = isOwn ? rows.filter(({ owner }) => owner !== null && own.includes(owner)) : rows;
  const busy = hosts.filter(({ waiting }) => waiting.length > 0);
  if (rows.length === 0)
    return <Empty command="jobman list">No job waits for a slot, for a TPU or for capacity.</Empty>;
  return (
    <>
      {busy.length > 0 && <p class="rest">{busy.map((host) => escapeLine(formatHostUse(host))).join(' ')}</p>}
      {shown.length === 0 ? (
        <FilteredOut onClear={() => changeQuery({ of: null })}>
          None of {pluralize(rows.length, 'waiting job')} is yours.
        </FilteredOut>
      ) : (
        <Table
          label="Waiting jobs"
          rows={shown}
          columns={columns}
          twoLines={(row) => <Lines row={row} />}
          isTall
          keyOf={keyOfJob}
          onOpen={(row) => goTo(jobHref(row) ?? '')}
        />
      )}
      <p class="quiet rest">
        {pluralize(shown.length, 'job')}
        {shown.length < rows.length && `, ${pluralize(rows.length - shown.length, 'job')} of others not shown`}
        {more > 0 && `, ${more} more not shown`}
        {rows.some(({ hosts: own, queuePosition }) => own.length === 0 && queuePosition === null) &&
          `. ${noCloudPosition}`}
      </p>
    </>
  );
}

const columns: readonly Column<QueuedRow>[] = [
  {
    name: 'job',
    title: 'Job',
    width: '19%',
    cell: (row) => (
      <Two second={row.owner ?? '-'}>
        <JobLink row={row} /> <span title={escapeLine(row.name)}>{escapeLine(row.name)}</span>
      </Two>
    ),
  },
  {
    name: 'requests',
    title: 'Requests',
    width: '18%',
    cell: (row) => <Two second={row.attempt > 1 ? `for attempt ${row.attempt}` : ''}>{escapeLine(row.requests)}</Two>,
  },
  {
    name: 'blocked',
    title: 'Blocked by',
    cell: ({ blockedBy, sentence, message }) => (
      <Two second={sentence ?? message}>
        <BlockedBy blockedBy={blockedBy} />
      </Two>
    ),
  },
  {
    name: 'order',
    title: 'Order',
    width: '12.5rem',
    cell: (row) => (
      <Two second={row.queuePosition === null ? '' : `ahead: ${formatAhead(row.queuePosition)}`}>
        {escapeLine(formatOrder(row))}
      </Two>
    ),
  },
  {
    name: 'wait',
    title: 'Waiting',
    width: '12rem',
    align: 'right',
    cell: (row) => (
      <Two second={row.typicalWait === null ? '' : `usually ${formatBriefWait(row.typicalWait)}`}>
        <Wait row={row} />
      </Two>
    ),
  },
  {
    name: 'next',
    title: 'Next check',
    width: '7.5rem',
    align: 'right',
    cell: ({ nextAt }) => <NextCheck at={nextAt} />,
  },
];

/** Two lines of a cell. The second one may be too long. */
function Two({ children, second }: { readonly children: ComponentChildren; readonly second: string }) {
  return (
    <>
      <div class="first-line">{children}</div>
      <div class="second-line quiet" title={escapeLine(second)}>
        {escapeLine(second)}
      </div>
    </>
  );
}

function Lines({ row }: { readonly row: QueuedRow }) {
  return (
    <div class="row-lines">
      <span class="line">
        <JobLink row={row} /> {escapeLine(row.name)}
      </span>
      <Wait row={row} />
      <span class="line">
        <BlockedBy blockedBy={row.blockedBy} /> <span class="quiet">{escapeLine(row.sentence ?? row.message)}</span>
      </span>
      <span class="quiet">
        {row.queuePosition === null ? '' : `${row.queuePosition.position} of ${row.queuePosition.queueLength}`}
      </span>
    </div>
  );
}

function JobLink({ row }: { readonly row: QueuedRow }) {
  return <a href={jobHref(row) ?? ''}>{row.id}</a>;
}

function BlockedBy({ blockedBy }: Pick<QueuedRow, 'blockedBy'>) {
  return <strong class={`blocked-${blockedBy.kind}`}>{escapeLine(formatBlockedBy(blockedBy))}</strong>;
}

function Wait({ row: { blockedBy, waitsSinceAt } }: { readonly row: QueuedRow }) {
  return blockedBy.kind === 'backoff' ? <>-</> : <Since at={waitsSinceAt} />;
}

function NextCheck({ at }: { readonly at: Instant | null }) {
  const text = useComputed(() => {
    if (at === null) return '-';
    return at <= now.value ? 'now' : `in ${formatDuration(at - now.value)}`;
  });
  return <>{text}</>;
}
