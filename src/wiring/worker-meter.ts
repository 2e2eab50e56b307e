// Worker meter: runs the script of remote/worker-figures.ts on workers, and once for all programs on this machine.

import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { withTimeout } from '../app/concurrency.ts';
import { messageOf } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { workerTicket, type Session, type WorkerAccess, type WorkerRoutes } from '../app/worker-access.ts';
import type { FiguresAnswer, FiguresTarget, WorkerFigures, WorkerMeter } from '../app/worker-figures.ts';
import { isOnOwnHost } from '../backends/hosts/hosts.ts';
import { localRoot } from '../backends/hosts/machines.ts';
import { quote } from '../catalogue/shell.ts';
import { lastAllocation, type Job } from '../core/model/job.ts';
import { second, type Duration } from '../core/model/time.ts';
import { runLocalScript } from '../remote/transport.ts';
import { figuresScript, parseFigures, type MeasuredRun } from '../remote/worker-figures.ts';
import { runRoot } from './backends.ts';
import { openWorkers } from './worker-access.ts';

const timeout: Duration = 10 * second;
const maxOutputBytes = 256 * 1024;

/** Over the controller's connections, or own ones without a controller. */
export function createWorkerMeter(services: Services, routes: WorkerRoutes): WorkerMeter {
  const { home, io } = services;
  /** By job. A job that moves to another allocation has other workers. */
  const accesses = new Map<string, { readonly allocation: number; readonly access: Promise<WorkerAccess> }>();
  const here = measureTogether((runs) => measureHere(services, runs));

  function accessOf(job: Job): Promise<WorkerAccess> {
    const allocation = lastAllocation(job)?.ordinal ?? 0;
    const known = accesses.get(job.id);
    if (known?.allocation === allocation) return known.access;
    forget(job.id);
    const access = openWorkers(services, (options) => workerTicket(routes, job, options), 'shared');
    accesses.set(job.id, { allocation, access });
    return access;
  }

  function forget(job: string): void {
    const known = accesses.get(job);
    accesses.delete(job);
    known?.access.then((access) => access.close()).catch(() => undefined);
  }

  async function measureRemote(job: Job, { worker, attempt }: FiguresTarget): Promise<FiguresAnswer> {
    const access = await accessOf(job);
    const run = { key: `${job.id}/${worker}`, folder: `${runRoot(job, worker)}/attempt_${attempt}` };
    const answer = await runSession(access, Number(worker), figuresScript([run]));
    if (typeof answer !== 'string') {
      // The controller, whose connection it was, may have ended.
      if (answer.isClosed) forget(job.id);
      return { kind: 'unknown', reason: answer.reason };
    }
    const figures = parseFigures(answer)?.get(run.key);
    if (figures === undefined) return { kind: 'unknown', reason: 'its answer is incomplete' };
    return { kind: 'known', at: io.now(), figures };
  }

  return {
    async measure(job, target) {
      const { worker, attempt } = target;
      try {
        const ref = { job, worker };
        if (!isOnOwnHost(ref)) return await measureRemote(job, target);
        const folder = join(localRoot(home, job, worker), `attempt_${attempt}`);
        const figures = await here({ key: `${job.id}/${worker}`, folder: quote(folder) });
        return { kind: 'known', at: io.now(), figures };
      } catch (error) {
        forget(job.id);
        return { kind: 'unknown', reason: messageOf(error) };
      }
    },
    close() {
      for (const job of accesses.keys()) forget(job);
    },
  };
}

/** Calls in the same turn share one script, because they are about one machine. */
function measureTogether(
  measure: (runs: readonly MeasuredRun[]) => Promise<ReadonlyMap<string, WorkerFigures>>,
): (run: MeasuredRun) => Promise<WorkerFigures> {
  let waiting: { readonly runs: MeasuredRun[]; readonly answer: ReturnType<typeof measure> } | undefined;
  return async (run) => {
    if (waiting === undefined) {
      const runs: MeasuredRun[] = [];
      const turn = pause(0).then(() => {
        waiting = undefined;
        return measure(runs);
      });
      waiting = { runs, answer: turn };
    }
    waiting.runs.push(run);
    const figures = (await waiting.answer).get(run.key);
    if (figures === undefined) throw new Error('its answer is incomplete');
    return figures;
  };
}

async function measureHere(
  { io }: Services,
  runs: readonly MeasuredRun[],
): Promise<ReadonlyMap<string, WorkerFigures>> {
  const result = await runLocalScript(
    { script: figuresScript(runs), timeoutMs: timeout, maxOutputBytes },
    { env: io.env, cwd: io.userHome },
  );
  if (result.kind === 'no_answer') throw new Error(result.reason);
  return parseFigures(Buffer.from(result.stdout).toString('utf8')) ?? new Map();
}

interface NoAnswer {
  readonly reason: string;
  readonly isClosed: boolean;
}

/** The output of the script, which the shell reads from its standard input. */
async function runSession(access: WorkerAccess, worker: number, script: string): Promise<string | NoAnswer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const session: Session = access.start(worker, {
    program: { kind: 'argv', argv: ['sh', '-s'] },
    environment: 'host',
    hasInput: true,
    onBytes(chunk, stream) {
      if (stream === 'stderr') return;
      bytes += chunk.length;
      if (bytes > maxOutputBytes) session.stop();
      else chunks.push(chunk);
    },
  });
  // A shell that reads its script from a pipe would give the rest of it to its programs, so they get no input.
  const work = session.write(Buffer.from(`{\n${script}\n} </dev/null\nexit\n`)).then(() => {
    session.end();
    return session.ended;
  });
  const end = await withTimeout(timeout, work, () => undefined);
  if (end === undefined) {
    session.stop();
    return { reason: `no answer within ${timeout / second} s`, isClosed: false };
  }
  if (end.kind === 'unreachable') return { reason: end.reason, isClosed: true };
  return Buffer.concat(chunks).toString('utf8');
}
