// emulator: the built-in cloud as a process, and what may happen in it. Its verbs and their options are its own; here they are
// only taken apart.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { ageText, inertWord } from '../../app/figures.ts';
import type { CloudTpu, CloudView } from '../../app/services.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { emulatorVerbs } from '../completion/proposals.ts';
import type { Cli } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { isSettledPhase } from '../../core/phase.ts';
import type { EmulatorServeFlags } from '../table/flags.ts';
import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';

export async function status(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const now = await emulator.status();
  if (cli.json) {
    const { cloud, ...where } = now;
    cli.print(JSON.stringify({ ...where, speed: cloud?.speed ?? null, ...cloud?.raw }));
  } else if (now.cloud === null) cli.tell('The built-in cloud does not run; a job in project `emulator` starts it.');
  else {
    cli.tell(
      `The built-in cloud runs at ${now.url ?? '?'} (process ${now.pid ?? '?'}), ${now.cloud.speed} times as fast as Google's.`,
    );
    cli.printAll(cloudLines(now.cloud, columnsOf(cli.io.stdout), cli.io.now()));
  }
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.start();
  cli.answer(answer, `The built-in cloud ${answer.started ? 'was started' : 'runs already'}: ${answer.url}`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.stop();
  const sentence = answer.stopped ? 'was stopped; its state stays on disk.' : 'did not run.';
  cli.answer(answer, `The built-in cloud ${sentence}`);
  return exitCode.ok;
}

export async function act(cli: Cli, _flags: object, ...args: readonly string[]): Promise<number> {
  const { verb, target, options } = takeApart(args);
  expectVerb(verb);
  const emulator = await cli.services.emulator();
  const { started, url } = await emulator.start();
  if (started) cli.note(`Started the built-in cloud at ${url}; its TPUs are pretended and cost nothing.`);
  const said = await actOn(cli, target, (meant) => emulator.act(verb, meant, options));
  cli.answer({ verb, target: target ?? null, message: said }, said);
  return exitCode.ok;
}

/**
 * Acts on the target as it was said. The cloud knows ids of jobs and names of nodes; what it does not know may be the name
 * of a job (`iris`, or `iris/1` for its worker 1). Throws what the cloud said when it is not.
 */
async function actOn(
  cli: Cli,
  target: string | undefined,
  act: (target: string | undefined) => Promise<string>,
): Promise<string> {
  try {
    return await act(target);
  } catch (error) {
    if (target === undefined || !isAboutTarget(error)) throw error;
    const [, name = target, worker = ''] = /^(.+?)(\/\d+)?$/.exec(target) ?? [];
    const job = await jobOf(await cli.services.client(), name);
    if (job === undefined) throw error;
    const byId = `${job.id}${worker}`;
    // By its name the cloud does not know it; by its id it has been asked already.
    const said = target === byId ? error : await act(byId).catch((again: unknown) => again);
    if (typeof said === 'string') return said;
    // Between two TPUs the cloud can only say that it knows none of that job, which reads as if there were no such job.
    throw isAboutTarget(said) && !holdsTpu(job) ? holdsNone(job) : said;
  }
}

function expectVerb(word: string): void {
  const verbs = emulatorVerbs.map(([verb]) => verb);
  if (word === '' || verbs.includes(word)) return;
  const meant = didYouMean(word, verbs);
  throw usageError(
    `The built-in cloud has no verb \`${word}\`.${meant === undefined ? '' : ` Did you mean \`${meant}\`?`}`,
    ['`jobman emulator --help` lists them.'],
  );
}

function holdsTpu({ allocations }: JobView): boolean {
  return allocations.some(({ ready, released, gone }) => ready !== null && released === null && gone === null);
}

function holdsNone(job: JobView): JobmanError {
  const it = `Job ${job.id} (${job.name})`;
  const number = Number(job.id);
  if (job.backend === 'local') return new JobmanError(`${it} runs on this machine and has no TPU.`, exitCode.conflict);
  const which = job.allocations.length > 1 ? 'a new' : 'its';
  const why = isSettledPhase(job.phase)
    ? `it has ended (${job.phase}). More: jobman show ${number}`
    : `it is ${job.phase} and waits for ${which} ${job.accelerator}. More: jobman why ${number}`;
  return new JobmanError(`${it} holds no TPU now: ${why}`, exitCode.conflict);
}

function isAboutTarget(error: unknown): boolean {
  return isNotFound(error) || (error instanceof JobmanError && error.code === exitCode.conflict);
}

async function jobOf(client: Client, name: string): Promise<JobView | undefined> {
  try {
    return await client.show(name);
  } catch (error) {
    // A name that several jobs have is worth saying; one that none has was a node's or a zone's, mistyped.
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof JobmanError && error.code === exitCode.notFound;
}

/** `preempt 1 --delay=5s --hard`: the verb, its target, and options; one without a value is `true`. Throws a usage error. */
function takeApart(words: readonly string[]): {
  readonly verb: string;
  readonly target: string | undefined;
  readonly options: Readonly<Record<string, string>>;
} {
  const plain: string[] = [];
  const options: Record<string, string> = {};
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [, name, given] = /^--([a-z][\w-]*)(?:=(.*))?$/i.exec(word) ?? [];
    if (name === undefined) {
      plain.push(word);
      continue;
    }
    const next = words[at + 1];
    if (given === undefined && next !== undefined && !next.startsWith('--')) at += 1;
    options[name] = given ?? (next === undefined || next.startsWith('--') ? 'true' : next);
  }
  const [verb = '', target, tooMany] = plain;
  if (tooMany !== undefined) throw usageError(`\`${tooMany}\` is one word too many for emulator ${verb}.`);
  return { verb, target, options };
}

export async function serve(cli: Cli, flags: EmulatorServeFlags): Promise<number> {
  const { port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExit } = flags;
  const idleExitMs = idleExit === 'never' ? undefined : idleExit;
  const emulator = await cli.services.emulator();
  return emulator.serve(given({ port, sshPort, seed, speed, state, hosts, gcsfuse, schedule, idleExitMs }));
}

const title = ['NAME', 'ZONE', 'TYPE', 'STATE', 'WORKERS', 'JOB', 'AGE'];

function cloudLines({ tpus, inForce }: CloudView, columns: number | null, now: Instant): readonly string[] {
  const rows = tpus.map((tpu) => [
    inertWord(tpu.name),
    inertWord(tpu.zone),
    inertWord(tpu.type),
    stateText(tpu),
    workersText(tpu),
    tpu.job === null ? '-' : inertWord(tpu.job),
    ageText(now - tpu.createdAt),
  ]);
  return [
    ...(rows.length === 0
      ? ['There is no TPU in it.']
      : aligned([title, ...rows], ['left', 'left', 'left', 'left', 'left', 'left', 'right'], columns)),
    ...inForce.map((condition) => `in force: ${inertWord(condition)}`),
  ];
}

function stateText({ node, queued }: CloudTpu): string {
  if (node === null || queued === null) return node ?? queued ?? '-';
  return node === 'READY' && queued === 'ACTIVE' ? node : `${node} / ${queued}`;
}

function workersText({ workers }: CloudTpu): string {
  if (workers.length === 0) return '-';
  const unwell = workers.flatMap((state, worker) => (state === 'runs' ? [] : [`${worker} ${state}`]));
  return [String(workers.length), ...unwell].join(', ');
}
