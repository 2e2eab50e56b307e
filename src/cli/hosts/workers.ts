import type { Ref } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { noticeChanges } from '../../app/job-updates.ts';
import { requireWorker, type Program, type SessionRequest, type WorkerAccess } from '../../app/worker-access.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Cli } from '../context.ts';
import type { PortForwardFlags } from '../table/flags.ts';
import type { ForwardTarget } from './forwarded-ports.ts';
import type { MachineFlags, Machines } from './machines.ts';

export async function openWorkers(cli: Cli, id: string, use: 'own' | 'shared', flags: MachineFlags): Promise<Machines> {
  if (flags.pod !== undefined) throw podError('--workers');
  if (flags.container !== undefined) {
    throw usageError(`--container needs a job in a cluster; the job's own is --in-container.`);
  }
  const access = await cli.services.workers(id, use);
  const { workers: count, container } = access.ticket;
  const choice = flags.workers ?? 'all';
  try {
    if (flags.inContainer === true && container === null)
      throw usageError(`Job ${id} runs in no container; remove --in-container.`);
    if (choice !== 'all') for (const [, to] of choice) requireWorker(id, to, count);
  } catch (error) {
    access.close();
    throw error;
  }
  const all = Array.from({ length: count }, (_, worker) => worker);
  const selected =
    choice === 'all' ? all : all.filter((worker) => choice.some(([from, to]) => from <= worker && worker <= to));
  return machinesOf(access, selected, flags.inContainer === true ? 'container' : 'host');
}

function machinesOf(
  access: WorkerAccess,
  selected: readonly number[],
  environment: SessionRequest['environment'],
): Machines {
  return {
    ...access,
    noun: 'worker',
    selected,
    count: access.ticket.workers,
    attach: (worker, request) => access.start(worker, { ...request, environment, hasInput: true }),
  };
}

/** As ssh does: a shell on this terminal, or a command with this input and output. */
export async function openShell(
  cli: Cli,
  access: WorkerAccess,
  worker: number,
  command: readonly string[],
): Promise<number> {
  requireWorker(access.ticket.job, worker, access.ticket.workers);
  const { stdin, stdout } = cli.io;
  const [line = 'exec "${SHELL:-/bin/sh}" -l', ...others] = command;
  const program: Program = others.length === 0 ? { kind: 'line', line } : { kind: 'argv', argv: command };
  const machines = machinesOf(access, [worker], 'host');
  if (command.length > 0 || !stdin.isTerminal || !stdout.isTerminal) {
    const { runOnWorkers } = await import('./run-on-workers.ts');
    return runOnWorkers(cli, machines, program, { stdin: true });
  }
  const { attachTerminal } = await import('../cluster/interactive.ts');
  return attachTerminal(cli, (request) => machines.attach(worker, { ...request, program }));
}

function podError(instead: string): JobmanError {
  return usageError(`--pod needs a job in a cluster; a TPU has workers: ${instead}.`);
}

export async function workerPortTarget(
  cli: Cli,
  ref: Ref,
  { worker = 0, pod }: PortForwardFlags,
): Promise<ForwardTarget> {
  const client = await cli.services.client();
  if (pod !== undefined) throw podError('--worker');
  /** Throws JobmanError if the job does not have this worker now. */
  const open = async (): Promise<WorkerAccess> => {
    const next = await cli.services.workers(ref, 'own');
    try {
      requireWorker(next.ticket.job, worker, next.ticket.workers);
      return next;
    } catch (error) {
      next.close();
      throw error;
    }
  };
  let access = await open();
  const { job: id } = access.ticket;
  const changes = noticeChanges(client);
  let seen = 0;
  return {
    name: `worker ${worker} of job ${id}`,
    job: `Job ${id}`,
    facts: { job: id, worker, pod: null },
    async connect(port) {
      const tunnel = await access.tunnel(worker, port);
      if (!('problem' in tunnel)) return tunnel;
      return tunnel.isReached
        ? `nothing answers on port ${port} of worker ${worker} of ${id}`
        : `worker ${worker} of ${id} cannot be reached: ${tunnel.problem}`;
    },
    async check() {
      const now = changes.count();
      if (now === seen) return { kind: 'same' };
      seen = now;
      const { allocations, phase } = await client.show(id);
      const isThere = allocations.some(
        ({ goneAt, releasedAt, workers }) => goneAt === null && releasedAt === null && workers.length > 0,
      );
      if (!isThere) return isFinishedPhase(phase) ? { kind: 'finished', phase } : { kind: 'none', phase };
      const next = await open().catch((error: unknown) => {
        // The machines disappeared between the two checks.
        if (error instanceof JobmanError && error.code === exitCode.conflict) return null;
        throw error;
      });
      if (next === null || next.ticket.allocation === access.ticket.allocation) {
        next?.close();
        return { kind: 'same' };
      }
      access.close();
      access = next;
      return { kind: 'moved', to: `worker ${worker} of allocation ${next.ticket.allocation}` };
    },
    close(): void {
      changes.close();
      access.close();
    },
  };
}
