// Creates a job in a Kubernetes cluster, directly in the cluster; jobman only archives its logs and history.

import { randomBytes } from 'node:crypto';
import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import {
  checkJobFile,
  clusterLabels,
  jobFileName,
  type JobFileOverrides,
  jobFromFile,
  jobObject,
  mainContainer,
  ownerLabels,
  replacedResources,
  type Submitter,
} from '../../app/cluster/job-object.ts';
import type { ClusterSubmissions } from '../../app/cluster/commands.ts';
import { submitJob } from '../../app/cluster/submit-job.ts';
import { identityOf, type ClusterContext } from '../../app/cluster/cluster.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import {
  parseAnnotations,
  generateJobName,
  mergeSubmitInputs,
  submitRequest,
  type SubmitRequest,
  type SubmitInput,
} from '../../app/cluster/submit-request.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { minute, second, type Duration } from '../../core/model/time.ts';
import { openJobs, type Jobs } from '../../app/jobs.ts';
import { beginArchive, reportArchiveStart } from '../../app/cluster/begin-archive.ts';
import { readFlavorFile } from '../cluster/flavor-file.ts';
import { variablesOf } from '../cluster-flags.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { flagName } from '../flags.ts';
import { abortOnSignal } from '../interrupt.ts';
import type { SubmitFlags } from '../table/flags.ts';

interface SubmitMode {
  readonly dryRun?: boolean | undefined;
  readonly follow?: boolean | undefined;
  readonly wait?: boolean | undefined;
  readonly tty?: boolean | undefined;
  readonly stdin?: boolean | undefined;
  readonly rm?: boolean | undefined;
}

export async function submit(cli: Cli, flags: SubmitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const [path, unexpected] = args.slice(0, args.length - cli.argsAfterDash.length);
  if (unexpected !== undefined || (path !== undefined && !/\.(ya?ml|json)$|^-$|\//i.test(path))) {
    throw usageError(`Unexpected argument "${unexpected ?? path}".`, [
      'The arguments of the container follow `--`: jobman submit -i alpine -- ls -al /',
    ]);
  }
  if (path !== undefined && flags.file !== undefined) {
    throw usageError(`Two files are given, ${path} and ${flags.file}; one is enough.`);
  }
  const named = path ?? flags.file;
  const file = named === '-' ? '/dev/stdin' : named;
  if (file === undefined && flags.set !== undefined) {
    throw usageError('--set changes a key of a manifest: jobman submit train.yaml --set key=value');
  }
  const options = submitOptions(cli, flags);
  expectInteractive(cli, { ...flags, file: named });
  if (file === undefined) return submitFromOptions(cli, options, flags);
  const { readSubmittedFile } = await import('../cluster/job-file.ts');
  const found = readSubmittedFile(cli, file);
  if ('job' in found) {
    const [name] = Object.keys(options).filter((key) => !jobFileOptions.includes(key));
    if (name !== undefined || flags.set !== undefined) {
      const flag = name === undefined ? '--set' : (flagOfOption[name] ?? flagName(name));
      throw usageError(`${file} is a whole Job, and ${flag} is about a part that the file says.`, [
        'Change the file. Flags that go with it: -j, -n, --context, -a, --label, --ttl, --suspend, --queue, --dry-run, --follow.',
      ]);
    }
    return submitJobFile(cli, found.job, options, flags);
  }
  // Load lazily: loading the manifest reader takes longer than the cluster's answer.
  const { readManifest } = await import('../manifest-file.ts');
  const read = await readManifest(cli, file, flags.set ?? [], { files: found.files });
  if ('manifest' in read) {
    throw usageError(`${file} has no section kubernetes, so it is not a job for a cluster.`, [
      `jobman create ${file} runs it where it says.`,
    ]);
  }
  return submitFromOptions(cli, mergeSubmitInputs(read.cluster, options), flags);
}

function expectInteractive({ io, json }: Cli, flags: SubmitFlags): void {
  const { tty, stdin, rm, dryRun, follow, file, suspend, parallelism = 1, completions = 1 } = flags;
  if (tty !== true && stdin !== true) {
    if (rm === true) throw usageError('--rm deletes an interactive job at its end, so it needs -it or --stdin.');
    return;
  }
  const isAlone = suspend !== true && parallelism === 1 && completions === 1;
  if (json || !isAlone || (tty === true && follow === true)) throw onePodError(flags);
  if (tty === true && dryRun !== true && (!io.stdin.isTerminal || !io.stdout.isTerminal)) {
    throw usageError(
      '-it needs a terminal for input and output. For a pipe or a file: --stdin; without input: --follow.',
    );
  }
  if (file === '-')
    throw usageError('The manifest and the program cannot both read standard input: name the file of the manifest.');
}

function onePodError({ tty }: Pick<SubmitFlags, 'tty'>): JobmanError {
  const [flag, both] = tty === true ? ['-it', 'this terminal'] : ['--stdin', 'this input'];
  const follow = tty === true ? '--follow, ' : '';
  return usageError(
    `${flag} is for one pod and ${both}: it does not go with ${follow}--suspend, --json or several pods.`,
  );
}

/** If the command of `--rm` was killed, the cluster deletes the Job this long after its program has ended. */
const abandonedTtl: Duration = 10 * minute;

/**
 * The first connection's end closes the input, so a broken session ends too. Throws JobmanError unless it has one pod.
 */
function makeInteractive(job: V1Job, mode: SubmitMode): V1Job {
  if (mode.tty !== true && mode.stdin !== true) return job;
  const { parallelism = 1, completions = 1, suspend = false } = job.spec ?? {};
  if (parallelism !== 1 || completions !== 1 || suspend) throw onePodError({ tty: mode.tty });
  const container = mainContainer(job.spec?.template.spec?.containers ?? []);
  if (container !== undefined) Object.assign(container, { stdin: true, stdinOnce: true, tty: mode.tty === true });
  return job;
}

const jobFileOptions: readonly string[] = [
  'name',
  'namespace',
  'context',
  'annotations',
  'labels',
  'ttl',
  'suspend',
  'queue',
];

const flagOfOption: Readonly<Record<string, string>> = {
  flavor: '-r',
  command: '-c',
  args: '`--`',
  secrets: '--secret',
  volumes: '--volume',
  tolerations: '--toleration',
  imagePullSecrets: '--image-pull-secret',
};

async function submitJobFile(cli: Cli, job: V1Job, options: JobFileOverrides, mode: SubmitMode): Promise<number> {
  const { settings } = await cli.services.clusterSettings();
  const name = jobFileName(job, options, generateJobName(randomBytes(5)));
  checkJobFile(job, options);
  return submitPlan(
    cli,
    {
      name,
      ...omitUndefined({
        namespace: options.namespace ?? job.metadata?.namespace,
        context: options.context,
      }),
      flavor: null,
      object(submitter) {
        const made = makeInteractive(jobFromFile(job, name, options, settings, submitter), mode);
        if (mode.rm === true && options.ttl === undefined) {
          if (made.spec !== undefined) made.spec.ttlSecondsAfterFinished ??= abandonedTtl / second;
        }
        return made;
      },
    },
    settings,
    mode,
  );
}

interface SubmitPlan extends Pick<SubmitRequest, 'name' | 'namespace' | 'context' | 'flavor'> {
  readonly object: (submitter: Submitter) => V1Job;
  readonly jobSecrets?: NonNullable<SubmitInput['jobSecrets']>;
}

function submitOptions({ io, argsAfterDash }: Cli, flags: SubmitFlags): SubmitInput {
  if (flags.command === true && argsAfterDash.length === 0) {
    throw usageError('-c replaces the entry point with the arguments after `--`, and there are none.');
  }
  const args = argsAfterDash.length === 0 ? undefined : argsAfterDash;
  return omitUndefined({
    name: flags.jobName,
    image: flags.image,
    flavor: flags.resourcesFlavor,
    namespace: flags.namespace,
    context: flags.context,
    annotations: flags.annotations === undefined ? undefined : parseAnnotations(flags.annotations),
    command: flags.command === true ? args : undefined,
    args: flags.command === true ? undefined : args,
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

/** Also for `jobman create` of a manifest with a section `kubernetes`. */
export async function submitFromOptions(cli: Cli, options: SubmitInput, mode: SubmitMode): Promise<number> {
  const { io, services } = cli;
  const { settings } = await services.clusterSettings();
  const { request, warnings } = submitRequest(options, {
    settings,
    generatedName: generateJobName(randomBytes(5)),
    readFile: (path) => readFlavorFile(io.cwd, path),
  });
  const label = cli.screen.styleErr('bold', cli.screen.styleErr('magenta', 'warning:'));
  for (const doubt of warnings) cli.note(`${label} ${doubt}`);
  const isShort = mode.rm === true && options.ttl === undefined;
  const object: SubmitPlan['object'] = (submitter) => {
    const job = makeInteractive(jobObject(request, settings, submitter), mode);
    if (isShort && job.spec !== undefined) job.spec.ttlSecondsAfterFinished = abandonedTtl / second;
    return job;
  };
  const { jobSecrets } = options;
  return submitPlan(cli, { ...request, object, ...omitUndefined({ jobSecrets }) }, settings, mode);
}

async function submitPlan(cli: Cli, plan: SubmitPlan, settings: ClusterSettings, mode: SubmitMode): Promise<number> {
  const { io, services } = cli;
  const client = await services.client();
  const [owner = ''] = ownerLabels(await client.whoAmI());
  const submitter = { owner, env: io.env };
  if (mode.dryRun === true) {
    const installation = await client.installationId();
    const job = plan.object({ ...submitter, installation });
    if (installation === null) {
      cli.note(
        `A submitted Job also has the label ${clusterLabels.installation}: the installation id, which the first submit creates.`,
      );
    }
    cli.print(cli.json ? JSON.stringify(job) : JSON.stringify(job, null, 2));
    return exitCode.ok;
  }
  if (!(await services.clusterSubmissions()).isUsed) {
    cli.note('Every user of the cluster can see the names of the job and its flavor: keep them free of secrets.');
    cli.note('Files in the pod are lost with the pod: write results to a --volume or a bucket. jobman keeps the logs.');
  }
  return create(cli, plan, settings, submitter, mode);
}

const submitTimeout: Duration = 30 * second;

/** Kueue suspends each Job that names one of its queues until it admits the Job. */
function wantsQueue({ metadata, spec }: V1Job): boolean {
  return metadata?.labels?.[clusterLabels.queue] !== undefined && spec?.suspend !== true;
}

function timeoutError(name: string, { context, server }: ClusterContext): JobmanError {
  return new JobmanError(
    `The cluster of ${context} (${server}) did not answer within ${submitTimeout / second} s.`,
    exitCode.unreachable,
    [`It may have created ${name} or not. When it answers again: jobman why ${name}`],
  );
}

async function readJobSecrets(cli: Cli, sources: NonNullable<SubmitPlan['jobSecrets']>) {
  const [{ readSecretValues }, { secretData }] = await Promise.all([
    import('../manifest-file.ts'),
    import('../../app/cluster/job-secrets.ts'),
  ]);
  const own = Object.entries(sources).flatMap(([secret, from]) => (from.kind === 'named' ? [] : [{ secret, from }]));
  return secretData(cli.services, sources, readSecretValues(cli, own));
}

async function create(
  cli: Cli,
  request: SubmitPlan,
  settings: ClusterSettings,
  submitter: Omit<Submitter, 'installation'>,
  mode: SubmitMode,
): Promise<number> {
  const { context, namespace, jobSecrets } = request;
  const data = jobSecrets === undefined ? null : await readJobSecrets(cli, jobSecrets);
  const cluster = await cli.services.cluster(omitUndefined({ context, namespace }));
  let submissions: ClusterSubmissions | undefined;
  let leave: ReturnType<typeof abortOnSignal> | undefined;
  let jobs: Jobs | undefined;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(timeoutError(request.name, cluster.context())), submitTimeout);
  try {
    const { userConfigmap } = settings.job;
    const ofUser = userConfigmap === null ? null : await cluster.configMap(userConfigmap, undefined, late.signal);
    const group = Number(ofUser?.['ceph.gid'] ?? Number.NaN);
    const groups = Number.isSafeInteger(group) ? [group] : [];
    const target = cluster.context();
    submissions = await cli.services.clusterSubmissions();
    const { installation, isArchived, note } = await beginArchive(cli.services, submissions, target);
    if (note !== null) cli.note(note);
    const asked = request.object({ ...submitter, installation, groups });
    const [made] = await Promise.all([
      submitJob(cluster, asked, data, { signal: late.signal }),
      isArchived ? submissions.preload() : undefined,
    ]);
    clearTimeout(timer);
    // From now on Ctrl-C leaves, even while the controller starts.
    if (mode.follow === true || mode.tty === true || mode.stdin === true) leave = abortOnSignal(cli);
    const message = `${request.name} submitted to ${target.context}/${target.namespace} as ${target.user}.`;
    if (cli.json) cli.print(JSON.stringify(made));
    else if (mode.stdin === true && mode.tty !== true) cli.note(message);
    else if (cli.quiet) cli.print(request.name);
    else cli.printSentence(message);
    const replaced = replacedResources(asked, made);
    if (replaced.length > 0) {
      cli.note(
        `The cluster has replaced the requested resources${request.flavor === null ? '' : ` as ${request.flavor}`}:`,
      );
      for (const line of replaced) cli.note(`  ${line}`);
    }
    if (wantsQueue(asked) && made.spec?.suspend !== true) {
      cli.note('Kueue did not suspend the job: it runs at once, without waiting in its queue.');
    }
    const { note: startNote } = isArchived
      ? await reportArchiveStart(submissions.recordSubmitted(target, made))
      : { note: null };
    if (startNote !== null) cli.note(startNote);
    if (mode.wait === true) {
      const { wait } = await import('./wait.ts');
      const { context: at, namespace: within } = target;
      return await wait(cli, { jobName: request.name, context: at, namespace: within });
    }
    if (leave === undefined) return exitCode.ok;
    jobs = openJobs(cli.services, { context: target.context, namespace: target.namespace });
    if (mode.tty === true || mode.stdin === true) {
      const { runInteractive } = await import('../cluster/interactive.ts');
      const sessionOptions = { jobs, leave, remove: mode.rm === true, isTerminal: mode.tty === true };
      return await runInteractive(cli, cluster, identityOf(made), sessionOptions);
    }
    const { followToVerdict } = await import('../follow/follow.ts');
    const found = await jobs.find({ text: request.name, isName: true }, 'read');
    return await followToVerdict(cli, jobs, found, { leave: leave.signal });
  } finally {
    await jobs?.close();
    clearTimeout(timer);
    leave?.release();
    await submissions?.close();
    await cluster.close();
  }
}
