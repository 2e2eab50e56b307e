import { usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { splitRef, type Cli, type GlobalFlags } from '../context.ts';
import { parseProgram, runOnWorkers } from '../hosts/run-on-workers.ts';
import { openMachines, openPortTarget } from '../jobs/machines.ts';
import { forEachJob } from '../jobs/resolve.ts';
import type { ExecFlags, PortForwardFlags } from '../table/flags.ts';
import { forwardPorts, parsePortMapping } from '../hosts/forwarded-ports.ts';

export async function exec(cli: Cli, flags: ExecFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return forEachJob(cli, flags, refs, 'change', async (job, jobs) => {
    const program = parseProgram(rest, job.id);
    const machines = await openMachines(cli, jobs, job, 'shared', flags);
    try {
      const { selected, noun, names, attach } = machines;
      const flag = flags.tty === true ? '--tty' : flags.stdin === true ? '--stdin' : null;
      const [first = 0, ...others] = selected;
      if (flag !== null && others.length > 0) {
        const found = [...(names ?? [])].map(([number, name]) => `${number} (${name})`).join(', ');
        throw usageError(
          `${flag} is for one ${noun}, and this command runs on ${pluralize(selected.length, noun)}${found === '' ? '' : ` (${found})`}: choose one with ${noun === 'pod' ? '--pod' : '--workers'}.`,
        );
      }
      if (flags.tty !== true) return await runOnWorkers(cli, machines, program, flags);
      expectTerminal(cli, flags);
      const { attachTerminal } = await import('../cluster/interactive.ts');
      return await attachTerminal(cli, (request) => attach(first, { ...request, program }));
    } finally {
      machines.close();
    }
  });
}

function expectTerminal({ io, json }: Cli, { timeout }: ExecFlags): void {
  if (!io.stdin.isTerminal || !io.stdout.isTerminal) {
    throw usageError('--tty needs a terminal for input and output; in a pipe or a script use -i alone.');
  }
  if (json || timeout !== undefined) {
    throw usageError('--tty excludes --json and --timeout.');
  }
}

export async function portForward(
  cli: Cli,
  flags: PortForwardFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return forEachJob(cli, flags, refs, 'change', async (job, jobs) => {
    if (rest.length === 0) throw usageError(`Which port? For TensorBoard: jobman port-forward ${job.id} 6006`);
    const mappings = rest.map(parsePortMapping);
    return forwardPorts(cli, mappings, flags.address, await openPortTarget(cli, jobs, job, flags));
  });
}
