import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { ClusterContext } from '../../app/cluster/cluster.ts';
import { JobmanError, usageError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { resolve } from 'node:path';
import { readTextFile } from '../../manifest/files.ts';
import { disk } from '../disk.ts';

/** A pipe of a shell among the paths of KUBECONFIG. */
const pipePath = /(?:^|:)\/(?:dev|proc\/self)\/fd\/\d+(?::|$)/;

/** The installation id for the job's label. Submitting works even with a read-only home. */
export async function beginArchive(
  cli: Cli,
  archive: ClusterArchive,
  context: ClusterContext,
): Promise<{ readonly installation: string | null; readonly isArchived: boolean }> {
  const { settings } = await cli.services.clusterSettings();
  const isPiped = settings.kubeConfig.type === 'default' && pipePath.test(cli.io.env['KUBECONFIG'] ?? '');
  if (settings.kubernetes.keepLogs && isPiped) {
    cli.note('Logs and history will not be kept: the controller cannot read KUBECONFIG again, because it is a pipe.');
  } else if (settings.kubernetes.keepLogs) {
    try {
      return { installation: await archive.registerContext(context), isArchived: true };
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      cli.note(`Logs and history will not be kept. ${error.message}`);
      return { installation: null, isArchived: false };
    }
  }
  return { installation: await cli.services.installationId(), isArchived: false };
}

/** False, with a note, if no controller runs and none can be started. */
export async function printArchiveStart(cli: Cli, message: Promise<string | null>): Promise<boolean> {
  try {
    const sentence = await message;
    if (sentence !== null) cli.note(sentence);
    return true;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    cli.note(`Logs and history are not kept now. ${error.message}`);
    return false;
  }
}

const maxFlavorBytes = 64 * 1024;

/** Undefined if there is no such file. Throws a usage error. */
export function readFlavorFile(folder: string, name: string): string | undefined {
  const path = resolve(folder, name);
  const { kind } = disk.inspect(path);
  if (kind === 'absent' || kind === 'folder') return undefined;
  const read = readTextFile(disk, path, maxFlavorBytes);
  if ('text' in read) return read.text;
  throw usageError(`The flavor's file ${path} ${read.reason}.`);
}
