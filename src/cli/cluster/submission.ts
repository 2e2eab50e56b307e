// Submission: the text of a flavor's file, and whether logs and history of the job will outlive its pods.

import type { ClusterKeeper } from '../../app/cluster/client.ts';
import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { resolve } from 'node:path';
import { readText } from '../../manifest/files.ts';
import { disk } from '../disk.ts';

/** A pipe of a shell among the paths of KUBECONFIG. */
const pipe = /(?:^|:)\/(?:dev|proc\/self)\/fd\/\d+(?::|$)/;

/** The mark for the job's label, and whether its logs are kept. A home that cannot be written keeps nobody from submitting. */
export async function begin(
  cli: Cli,
  keeper: ClusterKeeper,
  place: ClusterPlace,
): Promise<{ readonly installation: string | null; readonly isKept: boolean }> {
  const { settings } = await cli.services.clusterSettings();
  const isPiped = settings.kubeConfig.type === 'default' && pipe.test(cli.io.env['KUBECONFIG'] ?? '');
  if (settings.kubernetes.keepLogs && isPiped) {
    cli.note('Logs and history will not be kept: the controller cannot read KUBECONFIG again, because it is a pipe.');
  } else if (settings.kubernetes.keepLogs) {
    try {
      return { installation: await keeper.begin(place), isKept: true };
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      cli.note(`Logs and history will not be kept. ${error.message}`);
      return { installation: null, isKept: false };
    }
  }
  return { installation: await cli.services.installation(), isKept: false };
}

/** Says what is to be said of the controller. False, with a remark, when there is none and none can be started. */
export async function sayKept(cli: Cli, said: Promise<string | null>): Promise<boolean> {
  try {
    const sentence = await said;
    if (sentence !== null) cli.note(sentence);
    return true;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    cli.note(`Logs and history are not kept now. ${error.message}`);
    return false;
  }
}

/** A flavor is a few lines. */
const flavorMost = 64 * 1024;

/** The text of a file that a flavor may be in, seen from that folder; undefined when there is none. Throws a usage error. */
export function flavorFile(folder: string, name: string): string | undefined {
  const path = resolve(folder, name);
  const { kind } = disk.look(path);
  if (kind === 'absent' || kind === 'folder') return undefined;
  const read = readText(disk, path, flavorMost);
  if ('text' in read) return read.text;
  throw new JobmanError(`The flavor's file ${path} ${read.why}.`, exitCode.usage);
}
