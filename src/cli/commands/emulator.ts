// The TPU emulator as a process, and its faults. The emulator defines the verbs and their options.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode, isNotFoundError, JobmanError, messageOf, usageError } from '../../app/errors.ts';
import { formatAge, escapeLine, formatMachine } from '../../app/format.ts';
import { isIdRef } from '../../app/refs.ts';
import type { EmulatorStatus, EmulatorTpu } from '../../app/services.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { emulatorVerbs } from '../completion/proposals.ts';
import { refuseJson, type Cli } from '../context.ts';
import { foreignCommandHint } from '../foreign-commands.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { EmulatorServeFlags } from '../table/flags.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Instant } from '../../core/model/time.ts';

export async function status(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const now = await emulator.status();
  if (cli.json) cli.printJson(now);
  else if (!now.running) cli.printSentence('The TPU emulator does not run; a job in project `emulator` starts it.');
  else {
    cli.printSentence(
      `The TPU emulator runs at ${now.url ?? '?'} (process ${now.pid ?? '?'}), ${now.speed ?? '?'} times as fast as Google Cloud.`,
    );
    cli.printAll(cloudLines(now, columnsOf(cli.io.stdout), cli.io.now()));
  }
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.start();
  cli.printResult(
    answer,
    answer.started
      ? `Started the TPU emulator at ${answer.url}. Its TPUs are simulated and free.`
      : `The TPU emulator already runs at ${answer.url}.`,
  );
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.stop();
  cli.printResult(
    answer,
    answer.stopped ? 'Stopped the TPU emulator. Its state stays on disk.' : 'The TPU emulator did not run.',
  );
  return exitCode.ok;
}

export async function act(cli: Cli, _flags: object, ...args: readonly string[]): Promise<number> {
  const { verb, target, options } = parseAction(args);
  expectVerb(verb);
  const emulator = await cli.services.emulator();
  const { started, url } = await emulator.start();
  if (started) cli.note(`Started the TPU emulator at ${url}. Its TPUs are simulated and free.`);
  const message = await actOnTarget(cli, target, (resolved) => emulator.act(verb, resolved, options));
  cli.printResult({ verb, target: target ?? null, message }, message);
  return exitCode.ok;
}

/**
 * The emulator knows job ids and node names, but not job names (`iris`, or `iris/1` for worker 1). Throws its error.
 */
async function actOnTarget(
  cli: Cli,
  target: string | undefined,
  act: (target: string | undefined) => Promise<string>,
): Promise<string> {
  try {
    return await act(target);
  } catch (error) {
    if (target === undefined || !isAboutTarget(error)) throw error;
    const [, name = target, worker = ''] = /^(.+?)(\/\d+)?$/.exec(target) ?? [];
    const job = await findJob(await cli.services.client(), name);
    if (job === undefined) throw isIdRef(name) ? noJobError(name, error) : error;
    const byId = `${job.id}${worker}`;
    // With an id as the target, the emulator has answered already.
    const answer = target === byId ? error : await act(byId).catch((again: unknown) => again);
    if (typeof answer === 'string') return answer;
    // Between two TPUs the emulator knows no TPU of the job, and its error reads as if the job did not exist.
    throw isAboutTarget(answer) && (job.hosts.length > 0 || !holdsTpu(job)) ? noTpuError(job) : answer;
  }
}

function expectVerb(verb: string): void {
  const verbs = emulatorVerbs.map(([verb]) => verb);
  if (verb === '' || verbs.includes(verb)) return;
  const meant = didYouMean(verb, verbs);
  throw usageError(
    `Unknown verb "${verb}" of the TPU emulator.${meant === undefined ? '' : ` Did you mean "${meant}"?`}`,
    [foreignCommandHint(`emulator ${verb}`) ?? '`jobman emulator --help` lists them.'],
  );
}

function holdsTpu({ allocations }: JobView): boolean {
  return allocations.some(
    ({ readyAt, releasedAt, goneAt }) => readyAt !== null && releasedAt === null && goneAt === null,
  );
}

function noTpuError(job: JobView): JobmanError {
  const subject = `Job ${job.id} (${job.name})`;
  const number = Number(job.id);
  if (job.hosts.length > 0)
    return new JobmanError(`${subject} runs on ${formatMachine(job)} and has no TPU.`, exitCode.conflict);
  const which = job.allocations.length > 1 ? 'a new' : 'its';
  const why = isFinishedPhase(job.phase)
    ? `it has finished (${job.phase}). More: jobman show ${number}`
    : `it is ${job.phase} and waits for ${which} ${formatMachine(job)}. More: jobman why ${number}`;
  return new JobmanError(`${subject} holds no TPU now: ${why}`, exitCode.conflict);
}

/** The error of the emulator, which lists its TPUs, with the job in place of the node. */
function noJobError(ref: string, error: unknown): JobmanError {
  const [, ...rest] = messageOf(error).split(/(?<=\.) /);
  return new JobmanError([`There is no job ${ref.padStart(6, '0')}.`, ...rest].join(' '), exitCode.notFound);
}

function isAboutTarget(error: unknown): boolean {
  return isNotFoundError(error) || (error instanceof JobmanError && error.code === exitCode.conflict);
}

async function findJob(client: Client, name: string): Promise<JobView | undefined> {
  try {
    return await client.show(isIdRef(name) ? name : await client.resolveName(name, 'change'));
  } catch (error) {
    // Report a name of several jobs; an unknown name was a mistyped node or zone.
    if (isNotFoundError(error)) return undefined;
    throw error;
  }
}

/** `preempt 1 --delay=5s --hard`; an option without a value is `true`. Throws a usage error. */
function parseAction(args: readonly string[]): {
  readonly verb: string;
  readonly target: string | undefined;
  readonly options: Readonly<Record<string, string>>;
} {
  const plain: string[] = [];
  const options: Record<string, string> = {};
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? '';
    const [, name, given] = /^--([a-z][\w-]*)(?:=(.*))?$/i.exec(arg) ?? [];
    if (name === undefined) {
      plain.push(arg);
      continue;
    }
    const next = args[at + 1];
    if (given === undefined && next !== undefined && !next.startsWith('--')) at += 1;
    options[name] = given ?? (next === undefined || next.startsWith('--') ? 'true' : next);
  }
  const [verb = '', target, tooMany] = plain;
  if (tooMany !== undefined) throw usageError(`Unexpected argument "${tooMany}" for emulator ${verb}.`);
  return { verb, target, options };
}

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  refuseJson(cli.json, '`jobman emulator serve`');
  const { port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExit } = flags;
  const idleExitMs = idleExit === 'never' ? undefined : idleExit;
  const emulator = await cli.services.emulator();
  return emulator.serve(omitUndefined({ port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExitMs }));
}

function cloudLines({ tpus, activeFaults }: EmulatorStatus, columns: number | null, now: Instant): readonly string[] {
  const table: readonly Column<EmulatorTpu>[] = [
    { title: 'NAME', text: ({ name }) => name },
    { title: 'ZONE', text: ({ zone }) => zone },
    { title: 'ACCELERATOR', text: ({ accelerator }) => accelerator },
    { title: 'STATE', text: formatState },
    { title: 'WORKERS', text: formatWorkers },
    { title: 'JOB', text: ({ job }) => job ?? '-' },
    { title: 'AGE', side: 'right', text: ({ createdAt }) => formatAge(now - createdAt) },
  ];
  return [
    ...(tpus.length === 0 ? ['It has no TPUs.'] : fittedTable(table, tpus, [], columns)),
    ...activeFaults.map((condition) => `in force: ${escapeLine(condition)}`),
  ];
}

function formatState({ nodeState, queuedResourceState }: EmulatorTpu): string {
  if (nodeState === null || queuedResourceState === null) return nodeState ?? queuedResourceState ?? '-';
  return nodeState === 'READY' && queuedResourceState === 'ACTIVE'
    ? nodeState
    : `${nodeState} / ${queuedResourceState}`;
}

function formatWorkers({ workers }: EmulatorTpu): string {
  if (workers.length === 0) return '-';
  const unwell = workers.flatMap((state, worker) =>
    state === 'running' ? [] : [`${worker} ${state.replaceAll('_', ' ')}`],
  );
  return [String(workers.length), ...unwell].join(', ');
}
