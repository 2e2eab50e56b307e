// A job of the store.

import type { Client, CommandOptions, JobView, Ref } from '../../app/client.ts';
import type { ClusterVerb } from '../../app/cluster/commands.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine, formatMachine } from '../../app/format.ts';
import { describeEvent, withoutRepeatedLosses } from '../../app/history.ts';
import { viewJson } from '../../app/json.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { workerNotFound, type WorkerAccess } from '../../app/worker-access.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { printAnswer, type Cli } from '../context.ts';
import type { ForwardTarget } from '../hosts/forwarded-ports.ts';
import { confirm, confirmIfRequired } from '../prompt.ts';
import { columnsOf } from '../screen.ts';
import type { ExecFlags, PortForwardFlags } from '../table/flags.ts';
import type { JobHandle, JobText, Machines } from './handle.ts';

export function storedJob(cli: Cli, client: Client, ref: Ref): JobHandle {
  const { io, screen, services } = cli;
  const columns = columnsOf(io.stdout);
  return {
    id: ref,
    isStored: true,
    async show() {
      const [view, { showLines }] = await Promise.all([client.show(ref), import('../render/show.ts')]);
      const layout = { columns, styler: screen.styleOut, unicode: screen.unicode, now: io.now() };
      return { objects: () => [viewJson(view)], lines: () => showLines(view, layout) };
    },
    async why(isExplained) {
      const [answer, { whyLines }] = await Promise.all([client.why(ref), import('../render/show.ts')]);
      return { objects: () => [answer], lines: () => whyLines(answer, columns, io.now(), isExplained) };
    },
    history: (isTimeline) => storedHistory(cli, client, ref, isTimeline),
    async report() {
      const { storedReport } = await import('../report/stored.ts');
      return storedReport(cli, client, ref);
    },
    diffSide: (attempt) => client.diffSide(ref, attempt),
    async usageJob() {
      const { id, name } = await client.show(ref);
      return { key: id, name, title: `job ${id}` };
    },
    async logs(flags) {
      const { printStoredLogs } = await import('../logs/stored.ts');
      return printStoredLogs(cli, client, ref, flags);
    },
    metrics: (query) => client.metrics(ref, query),
    metricPoints: (query) => client.metricPoints(ref, query),
    async followLast(tail, leave) {
      const { followLog } = await import('../follow/follow.ts');
      const form = { form: 'terminal', numbered: true, fold: true, colour: screen.colour } as const;
      const exitHints = ['q returns to the list', 'q returns'] as const;
      const options = { query: {}, rules: { ...form, tail, follow: true }, leave, exitHints };
      return (await followLog(cli, client, ref, options)).kind === 'finished';
    },
    perform: (verb, options) => perform(cli, client, ref, verb, options),
    delete: (isForced) => deleteStored(cli, client, ref, isForced),
    clean: async () => printAnswer(cli, await client.clean(ref)),
    machines: (use, flags) => openWorkers(cli, client, ref, use, flags),
    portTarget: (flags) => workerPortTarget(cli, client, ref, flags),
    async ssh(worker, command) {
      const { id } = await client.show(ref);
      return services.onTerminal(await services.sshArgv(id, worker, command));
    },
  };
}

const plainColumns = 80;

async function storedHistory(cli: Cli, client: Client, ref: Ref, isTimeline: boolean): Promise<JobText> {
  const { io, screen } = cli;
  const { historyLines, timelineLines } = await import('../render/history.ts');
  // Resolve the name once: it may mean another job later.
  const view = await client.show(ref);
  const events = await client.events(view.id, 0);
  const columns = columnsOf(io.stdout);
  return {
    objects: () => events.map(({ seq, event }) => ({ seq, ...event })),
    lines: () => [
      screen.styleOut('bold', `${view.id} ${escapeLine(view.name)} (${escapeLine(view.owner)})`),
      ...(isTimeline ? timelineLines(view, columns ?? plainColumns, io.now()) : []),
      ...historyLines(
        withoutRepeatedLosses(events.map(({ event }) => event)).map((event) => ({
          at: event.at,
          message: describeEvent(event, view),
        })),
        columns,
        io.now(),
      ),
    ],
  };
}

async function perform(
  cli: Cli,
  client: Client,
  ref: Ref,
  verb: ClusterVerb,
  options: CommandOptions,
): Promise<number> {
  if (verb === 'start' || verb === 'resume' || verb === 'rerun') {
    const action = `${verb.charAt(0).toUpperCase()}${verb.slice(1)} it`;
    if (!(await confirmIfRequired(cli, client, ref, action, `Job ${ref} did not change`))) return exitCode.failed;
  }
  return printAnswer(cli, await client.sendCommand(ref, verb, options));
}

async function deleteStored(cli: Cli, client: Client, ref: Ref, isForced: boolean): Promise<number> {
  const view = await client.show(ref);
  const held = heldCapacity(view);
  if (held !== undefined) {
    const job = `Job ${view.id} (${escapeLine(view.name)}) holds ${held}.`;
    const refused = `${job} It was not deleted.`;
    if (!(await confirm(cli, `${job} Stop its program, release it and delete the job?`, refused))) {
      cli.note(refused);
      return exitCode.failed;
    }
  }
  return printAnswer(cli, await client.sendCommand(view.id, 'delete', { force: isForced }));
}

/** `v4-8, which costs about $4.00/h`; undefined unless an ephemeral allocation may exist and is not being released. */
function heldCapacity(view: JobView): string | undefined {
  const isReleased = view.desired === 'cancelled' || view.desired === 'deleted';
  const held =
    !isReleased &&
    view.allocations.some(
      ({ ownership, state, requestedAt, releasedAt, goneAt }) =>
        ownership === 'ephemeral' &&
        state !== 'refused' &&
        requestedAt !== null &&
        releasedAt === null &&
        goneAt === null,
    );
  if (!held) return undefined;
  return view.pricePerHourUsd === null
    ? formatMachine(view)
    : `${formatMachine(view)}, which costs ${formatHourlyCost(view, view.pricePerHourUsd)}`;
}

async function openWorkers(
  cli: Cli,
  client: Client,
  ref: Ref,
  use: 'own' | 'shared',
  flags: Pick<ExecFlags, 'workers' | 'pod' | 'container' | 'inContainer' | 'tty'>,
): Promise<Machines> {
  const { id, spec } = await client.show(ref);
  if (flags.tty === true) {
    throw usageError(`--tty needs a job in a cluster. A shell on a worker: jobman ssh ${id}`);
  }
  if (flags.pod !== undefined) throw podError('--workers');
  if (flags.container !== undefined) {
    throw usageError(`--container needs a job in a cluster; the job's own is --in-container.`);
  }
  if (flags.inContainer === true && !spec.steps.some(({ name }) => name === 'docker')) {
    throw usageError(`Job ${id} runs in no container; remove --in-container.`);
  }
  const access = await cli.services.workers(id, use);
  const { workers: all } = access;
  const choice = flags.workers ?? 'all';
  const outOfRange = choice === 'all' ? undefined : choice.find(([, to]) => to >= all.length)?.[1];
  if (outOfRange !== undefined) {
    access.close();
    throw workerNotFound(id, outOfRange, all.length);
  }
  const selected =
    choice === 'all' ? all : all.filter((worker) => choice.some(([from, to]) => from <= worker && worker <= to));
  return { ...access, noun: 'worker', selected, count: all.length };
}

function podError(instead: string): JobmanError {
  return usageError(`--pod needs a job in a cluster; a TPU has workers: ${instead}.`);
}

async function workerPortTarget(
  cli: Cli,
  client: Client,
  ref: Ref,
  { worker = 0, pod }: PortForwardFlags,
): Promise<ForwardTarget> {
  const { id } = await client.show(ref);
  if (pod !== undefined) throw podError('--worker');
  /** Throws JobmanError if the job does not have this worker now. */
  const open = async (): Promise<WorkerAccess> => {
    const next = await cli.services.workers(id, 'own');
    if (next.workers.includes(worker)) return next;
    next.close();
    throw workerNotFound(id, worker, next.workers.length);
  };
  let access = await open();
  let changes = -1;
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
      const now = await client.changeCount();
      if (now === changes) return { kind: 'same' };
      changes = now;
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
      if (next === null || next.allocation === access.allocation) {
        next?.close();
        return { kind: 'same' };
      }
      access.close();
      access = next;
      return { kind: 'moved', to: `worker ${worker} of allocation ${next.allocation}` };
    },
    close: () => access.close(),
  };
}
