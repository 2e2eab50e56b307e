// The jobs in the clusters of the server: the source of the commands, over the client of the page.

import { absentError, type ClusterParts } from '../../app/cluster/cluster-record.ts';
import { createRecords } from '../../app/cluster/find-job.ts';
import { splitZone, type ClusterJobView } from '../../app/cluster/job-view.ts';
import { clusterCommandLosses } from '../../app/cluster/command-losses.ts';
import { clusterActions } from '../../app/cluster/actions.ts';
import { viewJob } from '../../app/cluster/view-job.ts';
import { createServerCluster, createServerParts, type PodStreams } from '../../app/cluster/server-cluster.ts';
import type { CommandOptions, CommandResult, JobRow } from '../../app/client.ts';
import type { PerformedCommand } from '../../app/command-steps.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { JobActions } from '../../core/policy/permissions.ts';
import { serverNow } from '../live.ts';
import { client } from '../session.ts';

/** A Job by its name. */
export interface ClusterJobName {
  readonly context: string;
  readonly namespace: string;
  readonly name: string;
}

export function nameOf({ name, zone }: Pick<JobRow, 'name' | 'zone'>): ClusterJobName {
  return { ...splitZone(zone), name };
}

const notHere = (): never => {
  throw new Error('a page opens no programs, ports or secrets of a pod');
};
const noStreams: PodStreams = { exec: notHere, attach: notHere, put: notHere, get: notHere, tunnel: notHere };

export function openParts(): ClusterParts {
  return {
    ...createServerParts(client.cluster, client),
    io: { now: serverNow, env: {} },
    client: async () => ({ ...client, close: async () => undefined }),
    async cluster({ context, namespace }) {
      const at = await client.cluster.context(omitUndefined({ context, namespace }));
      return createServerCluster(client.cluster, at, noStreams);
    },
    namedSecret: notHere,
  };
}

export interface ClusterJobRead {
  readonly view: ClusterJobView;
  readonly actions: JobActions;
  /** The reason for which the archive answers instead of the cluster; null if the cluster answers. */
  readonly note: string | null;
}

/** Throws JobmanError: 3 for an absent job, 5 if the cluster does not answer and the archive does not have it. */
export async function readClusterJob(job: ClusterJobName): Promise<ClusterJobRead> {
  const parts = openParts();
  const record = await findJob(parts, job, 'read');
  const [view, actor] = await Promise.all([viewJob(parts, record, { now: serverNow() }), client.whoAmI()]);
  return { view, actions: clusterActions(record, actor), note: record.found.copy?.message ?? null };
}

/** The permission for the command, and the sentences about its losses. Throws JobmanError. */
export async function readClusterCommand(row: JobRow, command: PerformedCommand) {
  const { view, actions } = await readClusterJob(nameOf(row));
  return { action: actions[command], owner: view.owner, lines: clusterCommandLosses(view, command) };
}

/** Waits until the cluster has done it. */
export async function commandClusterJob(
  job: ClusterJobName,
  command: PerformedCommand,
  options: CommandOptions,
): Promise<CommandResult> {
  const parts = openParts();
  const record = await findJob(parts, job, 'change');
  // Without its cluster, only `jobman` on the machine of the server can act on the copy.
  const { server } = record.cluster ?? {};
  if (server === undefined) throw absentError(record.found);
  for await (const step of server.perform(record.job, command, options)) if (step.kind === 'result') return step;
  throw new Error('a command ended without a result');
}

/** Searches again each time, because the cluster may answer now. */
function findJob(parts: ClusterParts, { context, namespace, name }: ClusterJobName, purpose: 'read' | 'change') {
  return createRecords(parts, { context, namespace }, true).find(name, purpose);
}
