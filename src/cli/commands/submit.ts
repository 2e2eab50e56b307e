// submit: a job for a Kubernetes cluster, from flags, from a manifest, or from both. The cluster is asked there and then;
// jobman decides nothing about such a job, since the cluster does; it keeps its logs and history.

import { randomBytes } from 'node:crypto';
import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import {
  checkJobFile,
  clusterLabels,
  jobFileName,
  type JobFileWishes,
  jobFromFile,
  jobObject,
  mainContainer,
  replacedKey,
  replacedResources,
  type Submitter,
} from '../../app/cluster/job-object.ts';
import type { ClusterKeeper } from '../../app/cluster/client.ts';
import type { Cluster, ClusterPlace } from '../../app/cluster/cluster.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import {
  annotationsIn,
  freshJobName,
  mergedWishes,
  submitRequest,
  type SubmitRequest,
  type SubmitWishes,
} from '../../app/cluster/submit-request.ts';
import { given } from '../../core/given.ts';
import { minute, second, type Duration } from '../../core/time.ts';
import { begin, flavorFile, sayKept } from '../cluster/submission.ts';
import type { VariableWish } from '../cluster-flags.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { flagName } from '../flags.ts';
import { leaveOnSignal } from '../leave.ts';
import type { SubmitFlags } from '../table/flags.ts';

interface Way {
  readonly dryRun?: boolean | undefined;
  readonly follow?: boolean | undefined;
  readonly tty?: boolean | undefined;
  readonly stdin?: boolean | undefined;
  readonly rm?: boolean | undefined;
}

/** Words behind `--` run in the container; everything else of the command line is a flag. */
export async function submit(cli: Cli, flags: SubmitFlags & GlobalFlags, ...words: readonly string[]): Promise<number> {
  const [stray] = words.slice(0, words.length - cli.behind.length);
  if (stray !== undefined) {
    const hints = /\.ya?ml$/i.test(stray)
      ? [
          `jobman create ${stray}    creates a job from a manifest, also one for a cluster`,
          `jobman submit -f ${stray}    the same for a manifest with a section kubernetes, with flags over it`,
        ]
      : ['What the container runs is given after two dashes: jobman submit -i alpine -- ls -al /'];
    throw usageError(`Unexpected argument \`${stray}\`.`, hints);
  }
  const file = flags.file === '-' ? '/dev/stdin' : flags.file;
  if (file === undefined && flags.set !== undefined) {
    throw usageError('--set changes a manifest, and none is named: say it with -f.');
  }
  const wishes = wishesOf(cli, flags);
  expectInteractive(cli, flags);
  if (file === undefined) return submitWishes(cli, wishes, flags);
  const { readSubmittedFile } = await import('../cluster/job-file.ts');
  const found = readSubmittedFile(cli, file);
  if ('job' in found) {
    const [name] = Object.keys(wishes).filter((key) => !forJobFiles.includes(key));
    if (name !== undefined || flags.set !== undefined) {
      const flag = name === undefined ? '--set' : (flagOfWish[name] ?? flagName(name));
      throw usageError(`${file} is a whole Job, and ${flag} is about a part that the file says.`, [
        'Change the file. Flags that go with it: -j, -n, --context, -a, --label, --ttl, --suspend, --queue, --dry-run, --follow.',
      ]);
    }
    return submitJobFile(cli, found.job, wishes, flags);
  }
  // What reads manifests takes longer to load than the cluster takes to answer.
  const { readManifest } = await import('../manifest-file.ts');
  const read = await readManifest(cli, file, flags.set ?? [], { door: found.door });
  if ('manifest' in read) {
    throw usageError(`${file} has no section kubernetes, so it is no job for a cluster.`, [
      `jobman create ${file} runs it where it says.`,
    ]);
  }
  return submitWishes(cli, mergedWishes(read.cluster, wishes), flags);
}

function expectInteractive({ io, json }: Cli, flags: SubmitFlags): void {
  const { tty, stdin, rm, dryRun, follow, file, suspend, parallelism = 1, completions = 1 } = flags;
  if (tty !== true && stdin !== true) {
    if (rm === true) throw usageError('--rm deletes an interactive job at its end, so it needs -it or --stdin.');
    return;
  }
  const isAlone = suspend !== true && parallelism === 1 && completions === 1;
  if (json || !isAlone || (tty === true && follow === true)) throw onlyOnePod(flags);
  if (tty === true && dryRun !== true && (!io.stdin.isTerminal || !io.stdout.isTerminal)) {
    throw usageError('-it needs a terminal on both sides. For a pipe or a file: --stdin; without input: --follow.');
  }
  if (file === '-')
    throw usageError('The manifest and the program cannot both read standard input: name the file of the manifest.');
}

function onlyOnePod({ tty }: Pick<SubmitFlags, 'tty'>): JobmanError {
  const [flag, both] = tty === true ? ['-it', 'this terminal'] : ['--stdin', 'this input'];
  const follow = tty === true ? '--follow, ' : '';
  return usageError(
    `${flag} is for one pod and ${both}: it does not go with ${follow}--suspend, --json or several pods.`,
  );
}

/** If the command of `--rm` was killed, the cluster deletes the Job this long after its program has ended. */
const abandonedMost: Duration = 10 * minute;

/**
 * The Job with an open input, and with a terminal where one was asked for. The input ends when the first connection to it closes, so a
 * session that is cut off ends too. Throws JobmanError (usage) for a Job of several pods, or of none.
 */
function interactive(job: V1Job, way: Way): V1Job {
  if (way.tty !== true && way.stdin !== true) return job;
  const { parallelism = 1, completions = 1, suspend = false } = job.spec ?? {};
  if (parallelism !== 1 || completions !== 1 || suspend) throw onlyOnePod({ tty: way.tty });
  const container = mainContainer(job.spec?.template.spec?.containers ?? []);
  if (container !== undefined) Object.assign(container, { stdin: true, stdinOnce: true, tty: way.tty === true });
  return job;
}

/** Keys of a request that the command line may set for a file with a whole Job. */
const forJobFiles: readonly string[] = [
  'name',
  'namespace',
  'context',
  'annotations',
  'labels',
  'ttl',
  'suspend',
  'queue',
];

const flagOfWish: Readonly<Record<string, string>> = {
  flavor: '-r',
  command: '-c',
  args: '`--`',
  secrets: '--secret',
  volumes: '--volume',
  tolerations: '--toleration',
  imagePullSecrets: '--image-pull-secret',
};

async function submitJobFile(cli: Cli, job: V1Job, wishes: JobFileWishes, way: Way): Promise<number> {
  const { settings } = await cli.services.clusterSettings();
  const name = jobFileName(job, wishes, freshJobName(randomBytes(5)));
  checkJobFile(job, wishes);
  return submitPlan(
    cli,
    {
      name,
      namespace: wishes.namespace ?? job.metadata?.namespace ?? null,
      context: wishes.context ?? null,
      flavor: null,
      object(submitter) {
        const made = interactive(jobFromFile(job, name, wishes, settings, submitter), way);
        if (way.rm === true && wishes.ttl === undefined) {
          if (made.spec !== undefined) made.spec.ttlSecondsAfterFinished ??= abandonedMost / second;
        }
        return made;
      },
    },
    settings,
    way,
  );
}

interface SubmitPlan extends Pick<SubmitRequest, 'name' | 'namespace' | 'context' | 'flavor'> {
  readonly object: (submitter: Submitter) => V1Job;
}

function wishesOf({ io, behind }: Cli, flags: SubmitFlags): SubmitWishes {
  if (flags.command === true && behind.length === 0) {
    throw usageError('-c replaces the entry point by the words behind `--`, and there are none.');
  }
  const words = behind.length === 0 ? undefined : behind;
  return given({
    name: flags.jobName,
    image: flags.image,
    flavor: flags.resourcesFlavor,
    namespace: flags.namespace,
    context: flags.context,
    annotations: flags.annotations === undefined ? undefined : annotationsIn(flags.annotations),
    command: flags.command === true ? words : undefined,
    args: flags.command === true ? undefined : words,
    env: flags.env === undefined ? undefined : variablesOf(flags.env, io.env),
    secrets: flags.secret,
    workdir: flags.workdir,
    gpus: flags.gpus,
    cpu: flags.cpu,
    memory: flags.memory,
    labels: flags.label === undefined ? undefined : mapOf('--label', flags.label),
    nodeSelector: flags.nodeSelector === undefined ? undefined : mapOf('--node-selector', flags.nodeSelector),
    tolerations: flags.toleration,
    priorityClass: flags.priorityClass,
    imagePullSecrets: flags.imagePullSecret,
    shm: flags.shm,
    volumes: flags.volume,
    serviceAccount: flags.serviceAccount,
    parallelism: flags.parallelism,
    completions: flags.completions,
    backoffLimit: flags.backoffLimit,
    timeout: flags.timeout,
    ttl: flags.ttl,
    suspend: flags.suspend,
    queue: flags.queue,
  });
}

function mapOf(
  flag: string,
  pairs: readonly (readonly [key: string, value: string])[],
): Readonly<Record<string, string>> {
  const found = new Map<string, string>();
  for (const [key, value] of pairs) {
    const before = found.get(key);
    if (before !== undefined && before !== value) {
      throw usageError(`${flag} names ${key} twice: as ${before} and as ${value}.`);
    }
    found.set(key, value);
  }
  return Object.fromEntries(found);
}

/** A variable without a value has the one of this environment; one that is not set here is a mistake. */
function variablesOf(
  wishes: readonly VariableWish[],
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const missing = wishes.filter(([name, value]) => value === null && env[name] === undefined).map(([name]) => name);
  if (missing.length > 0) {
    throw usageError(
      `${missing.length === 1 ? 'The variable' : 'The variables'} ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} not set here: say --env ${missing[0]}=VALUE.`,
    );
  }
  return Object.fromEntries(wishes.map(([name, value]) => [name, value ?? env[name] ?? '']));
}

/** Makes up the job that is wished for and creates it; also for `jobman create` of a manifest with a section `kubernetes`. */
export async function submitWishes(cli: Cli, wishes: SubmitWishes, way: Way): Promise<number> {
  const { io, services } = cli;
  const { settings } = await services.clusterSettings();
  const { request, doubts } = submitRequest(wishes, {
    settings,
    freshName: freshJobName(randomBytes(5)),
    readFile: (path) => flavorFile(io.cwd, path),
  });
  const word = cli.screen.err('bold', cli.screen.err('magenta', 'warning:'));
  for (const doubt of doubts) cli.note(`${word} ${doubt}`);
  const isShort = way.rm === true && wishes.ttl === undefined;
  const object: SubmitPlan['object'] = (submitter) => {
    const job = interactive(jobObject(request, settings, submitter), way);
    if (isShort && job.spec !== undefined) job.spec.ttlSecondsAfterFinished = abandonedMost / second;
    return job;
  };
  return submitPlan(cli, { ...request, object }, settings, way);
}

async function submitPlan(cli: Cli, plan: SubmitPlan, settings: ClusterSettings, way: Way): Promise<number> {
  const { io, services } = cli;
  const submitter = { owner: io.user, env: io.env };
  if (way.dryRun === true) {
    const installation = await services.installation();
    const job = plan.object({ ...submitter, installation });
    if (installation === null) {
      cli.note(
        `Submitted, it also has the label ${clusterLabels.installation}: the mark of the record, which the first submit makes.`,
      );
    }
    cli.print(cli.json ? JSON.stringify(job) : JSON.stringify(job, null, 2));
    return exitCode.ok;
  }
  if (!services.hasSubmitted()) {
    cli.note('Everybody in the cluster may see the names of the job and of its flavor: put nothing private into them.');
    cli.note(
      'Files that the program writes in its pod are lost with the pod: write what has to stay to a --volume or a bucket. What it prints is kept.',
    );
  }
  return create(cli, plan, settings, submitter, way);
}

/** Writes it into the Job, for `details` of everybody and at any time; who may not change Jobs has read it above. */
async function noteReplaced(cluster: Cluster, made: V1Job, text: string): Promise<void> {
  const annotations = { [replacedKey]: text };
  try {
    await cluster.patch(made.metadata?.name ?? '', { metadata: { annotations } });
    if (made.metadata !== undefined) made.metadata.annotations = { ...made.metadata.annotations, ...annotations };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
  }
}

/** A submit gives up after so long, whatever it waits for. */
const submitMost: Duration = 30 * second;

/** Kueue suspends each Job that names one of its queues, until its turn. */
function wantsQueue({ metadata, spec }: V1Job): boolean {
  return metadata?.labels?.[clusterLabels.queue] !== undefined && spec?.suspend !== true;
}

function tooLate(name: string, { context, server }: ClusterPlace): JobmanError {
  return new JobmanError(
    `The cluster of ${context} (${server}) did not answer within ${submitMost / second} s.`,
    exitCode.unreachable,
    [`It may have created ${name} or not. When it answers again: jobman why ${name}`],
  );
}

async function create(
  cli: Cli,
  request: SubmitPlan,
  settings: ClusterSettings,
  submitter: Omit<Submitter, 'installation'>,
  way: Way,
): Promise<number> {
  const { context, namespace } = request;
  const cluster = await cli.services.cluster(
    given({ context: context ?? undefined, namespace: namespace ?? undefined }),
  );
  let keeper: ClusterKeeper | undefined;
  let leave: ReturnType<typeof leaveOnSignal> | undefined;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(tooLate(request.name, cluster.place())), submitMost);
  try {
    const { userConfigmap } = settings.job;
    const data = userConfigmap === null ? null : await cluster.configMap(userConfigmap, undefined, late.signal);
    const group = Number(data?.['ceph.gid'] ?? Number.NaN);
    const groups = Number.isSafeInteger(group) ? [group] : [];
    const place = cluster.place();
    keeper = await cli.services.keeper();
    const { installation, isKept } = await begin(cli, keeper, place);
    const asked = request.object({ ...submitter, installation, groups });
    const [made] = await Promise.all([
      cluster.create(asked, { signal: late.signal }),
      isKept ? keeper.prepare() : undefined,
    ]);
    clearTimeout(timer);
    // From now on there is something to leave, also while the controller is being started.
    if (way.follow === true || way.tty === true || way.stdin === true) leave = leaveOnSignal(cli);
    const said = `${request.name} submitted to ${place.context}/${place.namespace} as ${place.user}.`;
    if (cli.json) cli.print(JSON.stringify(made));
    // Standard output is the program's own.
    else if (way.stdin === true && way.tty !== true) cli.note(said);
    else if (cli.quiet) cli.print(request.name);
    else cli.tell(said);
    const replaced = replacedResources(asked, made);
    if (replaced.length > 0) {
      cli.note(`The cluster has replaced what was asked for${request.flavor === null ? '' : ` as ${request.flavor}`}:`);
      for (const line of replaced) cli.note(`  ${line}`);
      await noteReplaced(cluster, made, replaced.join('; '));
    }
    if (wantsQueue(asked) && made.spec?.suspend !== true) {
      cli.note('Kueue did not suspend the job: it runs at once, without waiting in its queue.');
    }
    if (isKept) await sayKept(cli, keeper.submitted(place, made));
    if (leave === undefined) return exitCode.ok;
    if (way.tty === true || way.stdin === true) {
      const { runInteractive } = await import('../cluster/interactive.ts');
      const how = { leave, remove: way.rm === true, isTerminal: way.tty === true };
      return await runInteractive(cli, cluster, request.name, how);
    }
    const { followToVerdict } = await import('../cluster/logs.ts');
    return await followToVerdict(cli, cluster, request.name, leave.signal);
  } finally {
    clearTimeout(timer);
    leave?.release();
    await keeper?.close();
    await cluster.close();
  }
}
