// One job in a cluster: its state with the reason, its commands, its pods, their events and their logs.

import '../job/job.css';
import './clusters.css';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { clusterCommandLosses } from '../../app/cluster/command-losses.ts';
import { clusterFacts, formatClusterEvent, formatContainerState } from '../../app/cluster/job-facts.ts';
import type { ClusterJobView } from '../../app/cluster/job-view.ts';
import type { ClusterContainer, ClusterEvent, ClusterPod } from '../../app/cluster/objects.ts';
import { escapeLine, formatAge, formatMachine } from '../../app/format.ts';
import { quote } from '../../catalogue/shell.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { now } from '../clock.ts';
import { follow, type Followed } from '../follow.ts';
import { CommandBar, type CommandButton, type CommandedJob } from '../job/commands.tsx';
import { serverNow } from '../live.ts';
import { address, changeQuery } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Facts } from '../parts/facts.tsx';
import { Failure } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Age, Time } from '../parts/time.tsx';
import { PodLogs } from './pod-logs.tsx';
import { commandClusterJob, readClusterJob, type ClusterJobName, type ClusterJobRead } from './source.ts';

interface State extends Followed {
  /** Null before the first read. */
  readonly read: ClusterJobRead | null;
  readonly readAt: number;
}

const refreshTime: Duration = 5 * second;

const usual: readonly CommandButton[] = [
  { command: 'start', title: 'Start' },
  { command: 'rerun', title: 'Rerun' },
  { command: 'stop', title: 'Stop' },
  { command: 'cancel', title: 'Cancel' },
];

const rare: readonly CommandButton[] = [
  { command: 'clean', title: 'Remove files', phrase: 'Remove the files of' },
  { command: 'delete', title: 'Delete' },
];

export function ClusterJobPage() {
  const { path, query } = address.value;
  const [, name = ''] = path;
  const context = query.get('context') ?? '';
  const namespace = query.get('namespace') ?? '';
  const state = useSignal<State | null>(null);
  useEffect(() => {
    state.value = null;
    const job: ClusterJobName = { context, namespace, name };
    return follow<State>(
      {
        initial: { read: null, readAt: serverNow(), failure: null },
        read: async () => ({ read: await readClusterJob(job), readAt: serverNow(), failure: null }),
        isAffected: () => false,
        retries: true,
        refreshTime,
      },
      (next) => (state.value = next),
    );
  }, [context, namespace, name]);
  const { read = null, failure = null, readAt = 0 } = state.value ?? {};
  if (read === null)
    return (
      <article class="page">
        {failure === null ? <p class="quiet">Reading {escapeLine(name)}…</p> : <Failure lines={failure} retry={null} />}
      </article>
    );
  const { view, actions, note } = read;
  const job: CommandedJob = {
    id: view.name,
    label: escapeLine(view.name),
    owner: view.owner,
    machine: formatMachine(view),
    actions,
    losses: (command) => clusterCommandLosses(view, command),
    send: (command, options) => commandClusterJob({ context, namespace, name }, command, options),
  };
  return (
    <article class="page job">
      <Head view={view} command={`jobman show ${quote(name)} --context ${quote(context)} -n ${quote(namespace)}`} />
      {note !== null && <Failure lines={[note]} retry={null} />}
      {failure !== null && (
        <Failure
          lines={[...failure, `The page shows the job as it was ${formatAge(now.value - readAt)} ago.`]}
          retry={null}
        />
      )}
      <p class="why">
        {escapeLine(view.why.message)} <span class="quiet">read {formatAge(now.value - readAt)} ago</span>
      </p>
      <CommandBar job={job} usual={usual} rare={rare} />
      <AllFacts view={view} />
      <Pods view={view} />
      <Events events={view.events} />
      <PodLogs view={view} />
    </article>
  );
}

function Head({ view, command }: { readonly view: ClusterJobView; readonly command: string }) {
  return (
    <div class="bar job-head">
      <h1>{escapeLine(view.name)}</h1>
      <PhaseLabel row={view} />
      <span class="quiet">{escapeLine(view.owner ?? 'created by another tool')}</span>
      <PageCommand text={command} />
    </div>
  );
}

function AllFacts({ view }: { readonly view: ClusterJobView }) {
  // The reason is above.
  const rows = clusterFacts(view, { now: now.value }).filter(([label]) => label !== 'why');
  return (
    <section aria-label="Facts">
      <Facts rows={rows} />
    </section>
  );
}

interface PodRow {
  readonly pod: ClusterPod;
  readonly container: ClusterContainer;
  readonly isGone: boolean;
}

const podColumns: readonly Column<PodRow>[] = [
  { name: 'pod', title: 'Pod', cell: ({ pod }) => escapeLine(pod.name) },
  { name: 'container', title: 'Container', width: '12rem', wide: true, cell: ({ container }) => container.name },
  {
    name: 'state',
    title: 'State',
    width: '7rem',
    cell: ({ pod, container, isGone }) => formatContainerState(pod, container, isGone),
  },
  {
    name: 'reason',
    title: 'Reason',
    width: '14rem',
    wide: true,
    cell: ({ container }) => escapeLine(container.reason ?? ''),
  },
  {
    name: 'restarts',
    title: 'Restarts',
    width: '6.5rem',
    align: 'right',
    cell: ({ container }) => container.restarts,
  },
  { name: 'node', title: 'Node', width: '14rem', wide: true, cell: ({ pod }) => escapeLine(pod.node ?? '-') },
  { name: 'age', title: 'Age', width: '4rem', align: 'right', cell: ({ pod }) => <Age at={pod.createdAt} /> },
];

/** The newest first. A click shows the log. */
function Pods({ view: { pods, goneAt } }: { readonly view: ClusterJobView }) {
  const rows = pods
    .toReversed()
    .flatMap((pod) => pod.containers.map((container) => ({ pod, container, isGone: goneAt !== null })));
  const keyOf = ({ pod, container }: PodRow): string => `${pod.name}/${container.name}`;
  return (
    <section aria-label="Pods">
      <h2>Pods</h2>
      {rows.length === 0 ? (
        <p class="quiet">The job has no pods.</p>
      ) : (
        <Table
          label="Pods, the newest first"
          rows={rows}
          columns={podColumns}
          keyOf={keyOf}
          onOpen={(row) => changeQuery({ log: keyOf(row) })}
        />
      )}
    </section>
  );
}

const eventColumns: readonly Column<ClusterEvent>[] = [
  { name: 'at', title: 'Last (UTC)', width: '13rem', wide: true, cell: ({ lastAt }) => <Time at={lastAt} /> },
  { name: 'of', title: 'Of', width: '5rem', wide: true, cell: ({ object }) => escapeLine(object.kind) },
  { name: 'reason', title: 'Reason', width: '11rem', cell: ({ reason }) => escapeLine(reason) },
  {
    name: 'message',
    title: 'Message',
    cell: (event) => <span title={formatClusterEvent(event)}>{escapeLine(formatClusterEvent(event))}</span>,
  },
];

function Events({ events }: { readonly events: readonly ClusterEvent[] }) {
  return (
    <section aria-label="Events">
      <h2>Events</h2>
      {events.length === 0 ? (
        <p class="quiet">The cluster reports no events. It keeps them for about an hour.</p>
      ) : (
        <Table
          label="Events, the newest first"
          rows={events.toReversed()}
          columns={eventColumns}
          keyOf={({ object, reason, message, firstAt }) => [object.uid, reason, message, firstAt].join(' ')}
        />
      )}
    </section>
  );
}
