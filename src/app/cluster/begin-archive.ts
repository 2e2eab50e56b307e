import type { Client } from '../client.ts';
import { exitCode, JobmanError, StoreError } from '../errors.ts';
import { formatAllowed } from '../limits.ts';
import { isAllowedCluster } from '../require-permission.ts';
import type { ClusterParts } from './cluster-record.ts';
import type { ClusterContext } from './cluster.ts';
import type { ClusterSubmissions } from './commands.ts';

/** A pipe of a shell among the paths of KUBECONFIG. */
const pipePath = /(?:^|:)\/(?:dev|proc\/self)\/fd\/\d+(?::|$)/;

/** The installation id for the job's label, and a note for the user. Submitting works even with a read-only home. */
export async function beginArchive(
  { io, clusterSettings, client }: Pick<ClusterParts, 'io' | 'clusterSettings' | 'client'>,
  submissions: ClusterSubmissions,
  context: ClusterContext,
): Promise<{ readonly installation: string | null; readonly isArchived: boolean; readonly note: string | null }> {
  await requireAllowedCluster(await client(), context);
  const { settings } = await clusterSettings();
  const isPiped = settings.kubeConfig.type === 'default' && pipePath.test(io.env['KUBECONFIG'] ?? '');
  if (!settings.kubernetes.keepLogs || isPiped) {
    const note =
      'Logs and history will not be kept: the controller cannot read KUBECONFIG again, because it is a pipe.';
    const isNoted = settings.kubernetes.keepLogs;
    return { installation: await (await client()).installationId(), isArchived: false, note: isNoted ? note : null };
  }
  try {
    return { installation: await submissions.registerContext(context), isArchived: true, note: null };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { installation: null, isArchived: false, note: `Logs and history will not be kept. ${error.message}` };
  }
}

/**
 * Prevents mistakes: the user's kubeconfig decides what the cluster allows. Throws JobmanError (4). A database that cannot be
 * read forbids nothing.
 */
async function requireAllowedCluster(client: Client, at: ClusterContext): Promise<void> {
  try {
    const [{ user }, users] = await Promise.all([client.whoAmI(), client.users()]);
    const allowed = users.find(({ name }) => name === user)?.limits.clusters ?? null;
    if (allowed === null || isAllowedCluster(allowed, at)) return;
    throw new JobmanError(
      `Nothing was submitted: ${user} may not use the cluster ${at.context}/${at.namespace}: ${formatAllowed(allowed)}.`,
      exitCode.conflict,
      [`An admin changes the limits of a user: jobman user limit ${user}`],
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}

/** Not started, with a note, if no controller runs and none can be started. */
export async function reportArchiveStart(
  message: Promise<string | null>,
): Promise<{ readonly isStarted: boolean; readonly note: string | null }> {
  try {
    return { isStarted: true, note: await message };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { isStarted: false, note: `Logs and history are not kept now. ${error.message}` };
  }
}
