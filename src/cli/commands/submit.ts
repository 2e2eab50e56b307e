// submit: a job for a Kubernetes cluster, from flags, from a manifest, or from both. The cluster is asked there and then;
// jobman decides nothing about such a job, since the cluster does; it keeps its logs and history.

import { randomBytes } from 'node:crypto';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { clusterLabels, jobObject, replacedResources, type Submitter } from '../../app/cluster/job-object.ts';
import type { ClusterKeeper } from '../../app/cluster/client.ts';
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
import type { Duration } from '../../core/time.ts';
import type { GpuWish, SecretWish, VolumeWish } from '../../manifest/kubernetes-words.ts';
import { flavorFile } from '../cluster/flavor-file.ts';
import { begin, sayKept } from '../cluster/keep.ts';
import type { VariableWish } from '../cluster-flags.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { leaveOnSignal } from '../leave.ts';

/** The flags of `jobman submit`. */
export interface SubmitFlags {
  readonly file: string | undefined;
  readonly set: readonly string[] | undefined;
  readonly image: string | undefined;
  readonly resourcesFlavor: string | undefined;
  readonly jobName: string | undefined;
  readonly annotations: string | undefined;
  readonly command: boolean | undefined;
  readonly dryRun: boolean | undefined;
  readonly follow: boolean | undefined;
  readonly namespace: string | undefined;
  readonly context: string | undefined;
  readonly env: readonly VariableWish[] | undefined;
  readonly secret: readonly SecretWish[] | undefined;
  readonly workdir: string | undefined;
  readonly gpus: GpuWish | undefined;
  readonly shm: string | undefined;
  readonly volume: readonly VolumeWish[] | undefined;
  readonly serviceAccount: string | undefined;
  readonly parallelism: number | undefined;
  readonly completions: number | undefined;
  readonly backoffLimit: number | undefined;
  readonly timeout: Duration | undefined;
  readonly ttl: Duration | undefined;
  readonly suspend: boolean | undefined;
  readonly queue: string | undefined;
}

/** What becomes of a job once it is made up. */
interface Way {
  readonly dryRun: boolean | undefined;
  readonly follow: boolean | undefined;
}

/** What follows `--` is run in the container; everything else of the command line is a flag. */
export async function submit(cli: Cli, flags: SubmitFlags & GlobalFlags, ...words: readonly string[]): Promise<number> {
  const [stray] = words.slice(0, words.length - cli.behind.length);
  if (stray !== undefined) {
    throw new JobmanError(`\`${stray}\` stands where only flags do.`, exitCode.usage, [
      'What the container runs stands behind two dashes: jobman submit -i alpine -- ls -al /',
    ]);
  }
  const { file } = flags;
  if (file === undefined && flags.set !== undefined) {
    throw new JobmanError('--set changes a manifest, and none is named: say it with -f.', exitCode.usage);
  }
  const wishes = wishesOf(cli, flags);
  if (file === undefined) return submitWishes(cli, wishes, flags);
  const purpose = flags.dryRun === true ? 'check' : 'create';
  // What reads manifests takes longer to load than the cluster takes to answer.
  const { readManifest } = await import('../manifest-file.ts');
  const read = await readManifest(cli, file, flags.set ?? [], purpose);
  if ('manifest' in read) {
    throw new JobmanError(`${file} has no section kubernetes, so it is no job for a cluster.`, exitCode.usage, [
      `jobman create ${file} runs it where it says.`,
    ]);
  }
  return submitWishes(cli, mergedWishes(read.cluster, wishes), flags);
}

function wishesOf({ io, behind }: Cli, flags: SubmitFlags): SubmitWishes {
  if (flags.command === true && behind.length === 0) {
    throw new JobmanError('-c replaces the entry point by the words behind `--`, and there are none.', exitCode.usage);
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

/** A variable without a value has the one of this environment; one that is not set here is a mistake. */
function variablesOf(
  wishes: readonly VariableWish[],
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const missing = wishes.filter(([name, value]) => value === null && env[name] === undefined).map(([name]) => name);
  if (missing.length > 0) {
    throw new JobmanError(
      `${missing.length === 1 ? 'The variable' : 'The variables'} ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} not set here: say --env ${missing[0]}=VALUE.`,
      exitCode.usage,
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
  const submitter = { owner: io.user, env: io.env };
  if (way.dryRun === true) {
    const installation = await services.installation();
    const job = jobObject(request, settings, { ...submitter, installation });
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
  }
  return create(cli, request, settings, submitter, way);
}

async function create(
  cli: Cli,
  request: SubmitRequest,
  settings: ClusterSettings,
  submitter: Omit<Submitter, 'installation'>,
  way: Way,
): Promise<number> {
  const { context, namespace } = request;
  const cluster = await cli.services.cluster(
    given({ context: context ?? undefined, namespace: namespace ?? undefined, isAlone: true }),
  );
  let keeper: ClusterKeeper | undefined;
  let leave: ReturnType<typeof leaveOnSignal> | undefined;
  try {
    const { userConfigmap } = settings.job;
    const data = userConfigmap === null ? null : await cluster.configMap(userConfigmap);
    const group = Number(data?.['ceph.gid'] ?? Number.NaN);
    const groups = Number.isSafeInteger(group) ? [group] : [];
    const place = cluster.place();
    keeper = await cli.services.keeper();
    const { installation, isKept } = await begin(cli, keeper, place);
    const asked = jobObject(request, settings, { ...submitter, installation, groups });
    const [made] = await Promise.all([cluster.create(asked), isKept ? keeper.prepare() : undefined]);
    // From now on there is something to leave, also while the controller is being started.
    if (way.follow === true) leave = leaveOnSignal(cli);
    if (cli.json) cli.print(JSON.stringify(made));
    else if (cli.quiet) cli.print(request.name);
    else cli.tell(`${request.name} submitted to ${place.context}/${place.namespace} as ${place.user}.`);
    const replaced = replacedResources(asked, made);
    if (replaced.length > 0) {
      cli.note(`The cluster has replaced what was asked for${request.flavor === null ? '' : ` as ${request.flavor}`}:`);
      for (const line of replaced) cli.note(`  ${line}`);
    }
    if (isKept) await sayKept(cli, keeper.submitted(place, made));
    if (leave === undefined) return exitCode.ok;
    const { followToVerdict } = await import('../cluster/to-verdict.ts');
    return await followToVerdict(cli, cluster, request.name, leave.signal);
  } finally {
    leave?.release();
    await keeper?.close();
    await cluster.close();
  }
}
