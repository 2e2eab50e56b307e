import { usageError } from '../../app/errors.ts';
import { splitRef, type Cli, type GlobalFlags } from '../context.ts';
import { forwardPorts, parsePortMapping } from '../hosts/forwarded-ports.ts';
import { forEachJob } from '../jobs/resolve.ts';
import type { PortForwardFlags } from '../table/flags.ts';

export async function portForward(
  cli: Cli,
  flags: PortForwardFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return forEachJob(cli, flags, refs, 'change', async (job) => {
    if (rest.length === 0) throw usageError(`Which port? For TensorBoard: jobman port-forward ${job.id} 6006`);
    const mappings = rest.map(parsePortMapping);
    return forwardPorts(cli, mappings, flags.address, await job.portTarget(flags));
  });
}
