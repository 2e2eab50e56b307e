import { usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { splitRef, type Cli, type GlobalFlags } from '../context.ts';
import { parseProgram, runOnWorkers } from '../hosts/run-on-workers.ts';
import { forEachJob } from '../jobs/resolve.ts';
import type { ExecFlags } from '../table/flags.ts';

export async function exec(cli: Cli, flags: ExecFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return forEachJob(cli, flags, refs, 'change', async (job) => {
    const program = parseProgram(rest, job.id);
    const machines = await job.machines('shared', flags);
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
      if (flags.tty !== true || attach === undefined) return await runOnWorkers(cli, machines, program, flags);
      expectTerminal(cli, flags);
      const { attachTerminal } = await import('../cluster/attach.ts');
      return await attachTerminal(cli, (request) => attach(first, { ...request, program }));
    } finally {
      machines.close();
    }
  });
}

function expectTerminal({ io, json }: Cli, { timeout }: ExecFlags): void {
  if (!io.stdin.isTerminal || !io.stdout.isTerminal) {
    throw usageError('--tty needs a terminal on both sides; without one leave it out (-i, not -it).');
  }
  if (json || timeout !== undefined) {
    throw usageError('--tty hands the terminal on as it is; it cannot go with --json or --timeout.');
  }
}
