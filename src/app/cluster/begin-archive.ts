import { JobmanError } from '../errors.ts';
import type { Services } from '../services.ts';
import type { ClusterContext } from './cluster.ts';
import type { ClusterSubmissions } from './commands.ts';

/** A pipe of a shell among the paths of KUBECONFIG. */
const pipePath = /(?:^|:)\/(?:dev|proc\/self)\/fd\/\d+(?::|$)/;

/** The installation id for the job's label, and a note for the user. Submitting works even with a read-only home. */
export async function beginArchive(
  { io, clusterSettings, client }: Pick<Services, 'io' | 'clusterSettings' | 'client'>,
  submissions: ClusterSubmissions,
  context: ClusterContext,
): Promise<{ readonly installation: string | null; readonly isArchived: boolean; readonly note: string | null }> {
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
