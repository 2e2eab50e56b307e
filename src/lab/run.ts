// Run: what `tpu run` asks for, as a job of the record. Pure: the command reads what it needs.

import { exitCode, JobmanError } from '../app/errors.ts';
import { accelerator, generationOf } from '../catalogue/accelerators.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { zonesOffering } from '../catalogue/zones.ts';
import { presets } from '../core/recover.ts';
import type { CommandSpec, JobSpec, RecoverySpec, SetupStep, TpuSpec } from '../core/spec.ts';
import { minute, second } from '../core/time.ts';
import type { LabJob } from './record.ts';
import { labScript, shellWord } from './script.ts';
import type { Site } from './site.ts';
import { acceleratorCalled, type LabTpu } from './tpus.ts';

/** The rules that a line may name; each is a preset of the core. */
export type LabRule = 'pre' | 'pass' | 'reapply' | 'rerun' | 'resume';

/** The rule of a job whose line names none. */
export function usualRule({ pricing }: Pick<LabTpu, 'pricing'>): LabRule {
  return pricing === 'ondemand' ? 'pass' : 'pre';
}

export interface RunSpec {
  readonly directory: string;
  readonly tag: string | null;
  readonly capacity: TpuSpec;
  readonly steps: readonly SetupStep[];
  readonly rule: LabRule;
  /** False: no rule answers its end, whatever `rule` says. */
  readonly monitor: boolean;
  readonly stageLimit: Site['stageLimit'];
  readonly hangGrace: Site['hangGrace'];
  /** For people: the line that is run, as they would type it. */
  readonly written: string;
  readonly launcher: readonly string[];
  /** Variables for the scripts in addition to the controller's own. */
  readonly env: CommandSpec['env'];
}

/** The spec of a job whose script runs on this machine and drives a TPU that is there before and after it. */
export function runSpec(run: RunSpec): JobSpec {
  return {
    version: 1,
    name: jobName(run.directory),
    tags: run.tag === null ? [] : [run.tag],
    capacity: run.capacity,
    steps: run.steps,
    command: {
      script: labScript(run.launcher),
      written: run.written,
      place: 'here',
      workers: 'all',
      env: run.env,
      // `tpu __begin` says where: a resumed attempt runs in the copy that its first one has frozen.
      workdir: null,
      checkpointDir: null,
    },
    recovery: recoveryOf(run),
    limits: {
      maxRuntime: null,
      silenceTimeout: null,
      troubleTimeout: run.hangGrace,
      capacityWait: null,
      setupTries: 3,
    },
    // Within it the script ends what it has started on the workers, too.
    stop: { signal: 'TERM', grace: minute },
    finish: { capacity: 'release', keepFor: null },
  };
}

function recoveryOf({ rule, monitor, stageLimit }: RunSpec): RecoverySpec {
  const preset = monitor ? rule : 'pass';
  return {
    preset,
    rules: presets[preset],
    budget: { preemptions: stageLimit, failures: stageLimit },
    delay: 5 * second,
    delayMax: 5 * minute,
    unreachableGrace: 3 * minute,
  };
}

/** The spec on another TPU. A rule that was the usual one of the old TPU becomes the usual one of the new. */
export function specElsewhere(
  spec: JobSpec,
  to: { readonly capacity: TpuSpec; readonly steps: readonly SetupStep[]; readonly launcher: readonly string[] },
  labJob: Pick<LabJob, 'monitor'>,
): JobSpec {
  const { capacity, recovery } = spec;
  const wasUsual = capacity.kind === 'tpu' && recovery.preset === usualRule(capacity);
  const preset = wasUsual && labJob.monitor ? usualRule(to.capacity) : undefined;
  return {
    ...spec,
    capacity: to.capacity,
    steps: to.steps,
    command: { ...spec.command, script: labScript(to.launcher) },
    recovery: preset === undefined ? recovery : { ...recovery, preset, rules: presets[preset] },
  };
}

/** The last part of a directory, as far as it may name a job: no blank, not only digits, nothing that reads as a flag. */
export function jobName(directory: string): string {
  const last = directory.split('/').findLast((part) => part !== '') ?? '';
  const name = last
    .replaceAll(/[\s\p{C}/]/gu, '_')
    .replace(/^-+/, '')
    .slice(0, 100);
  if (name === '') return 'run';
  return /^\d+$/.test(name) ? `run-${name}` : name;
}

/**
 * The part of the typist's environment that the scripts get, because another user may have started the controller. Nothing secret: it is
 * in the record.
 */
export function scriptEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  home: string,
): Readonly<Record<string, string>> {
  const kept =
    /^(PATH|LANG|LC_ALL|CLOUDSDK_(CONFIG|ACTIVE_CONFIG_NAME|CORE_PROJECT|CORE_ACCOUNT|AUTH_DISABLE_CREDENTIALS|API_ENDPOINT_OVERRIDES_[A-Z]+))$/;
  const entries = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && kept.test(name) ? [[name, value] as const] : [],
  );
  return { ...Object.fromEntries(entries), JOBMAN_HOME: home };
}

/** `source staging.sh ka=... --config...`, with quotes where a shell would want some. */
export function writtenLine(tpu: string, configs: readonly string[]): string {
  const words = [`ka=${tpu}`, ...configs];
  return `source staging.sh ${words.map(shellWord).join(' ')}`;
}

/**
 * The TPU that ka.sh assigns to VM_NAME, found without running it; null where it names none. Throws JobmanError (2) where it
 * names several.
 */
export function tpuInScript(text: string, file: string): string | null {
  const found = new Set<string>();
  for (const line of text.split('\n')) {
    const [, value = ''] =
      /^(?:[^#]*[\s;&])?(?:export\s+|declare\s+(?:-x\s+)?)?VM_NAME=("[^"]*"|'[^']*'|[^\s;&#]*)/.exec(line) ?? [];
    const name = literalIn(value.replace(/^(["'])(.*)\1$/, '$2'));
    if (name !== null) found.add(name);
  }
  const [first, ...others] = found;
  if (first === undefined) return null;
  if (others.length === 0) return first;
  throw new JobmanError(
    `${file} names several TPUs (${[...found].join(', ')}), and which one it takes cannot be told without running it.`,
    exitCode.usage,
    ['Say the TPU on the line: tpu run <tpu> <user>'],
  );
}

function literalIn(value: string): string | null {
  const [, otherwise] = /^\$\{\w+:?-([\w.-]+)\}$/.exec(value) ?? [];
  const name = otherwise ?? value;
  return /^[\w.-]+$/.test(name) ? name : null;
}

/** The TPUs of the registry that those types mean; all of them where none is said. */
export function tpusOfTypes(tpus: readonly LabTpu[], types: readonly string[]): readonly LabTpu[] {
  if (types.length === 0) return tpus;
  const wanted = new Set(types.map((type) => acceleratorCalled(type) ?? type));
  return tpus.filter(({ accelerator }) => wanted.has(accelerator));
}

/**
 * `lr=0.01` as `--config.training.learning_rate=0.01`, by the user's aliases; `config.a.b=v` as `--config.a.b=v`. The later of
 * two for one key counts. Throws JobmanError (2) with every key that is neither.
 */
export function configWords(
  configs: readonly (readonly [key: string, value: string])[],
  aliases: Readonly<Record<string, string>>,
  otherKeys: readonly string[],
): readonly string[] {
  const found = new Map<string, string>();
  const problems: string[] = [];
  for (const [key, value] of configs) {
    const full = Object.hasOwn(aliases, key) ? aliases[key] : key.startsWith('config.') ? key : undefined;
    if (full === undefined || full === 'config.') {
      const near = didYouMean(key, [...Object.keys(aliases), ...otherKeys]);
      const guess = near === undefined ? '' : ` Did you mean ${near}=?`;
      problems.push(
        `\`${key}\` is none of your aliases, and no key of a config, which would begin with \`config.\`.${guess}`,
      );
    } else found.set(full, value);
  }
  const [first, ...rest] = problems;
  if (first !== undefined)
    throw new JobmanError(first, exitCode.usage, [...rest, 'tpu -sa    lists your aliases; tpu -a ALIAS KEY adds one']);
  return [...found].map(([key, value]) => `--${key}=${value}`);
}

/**
 * The capacity of a job on that TPU. `project` is the default one, `seenIn` the zone in which the TPU was found. Throws
 * JobmanError (2) where the project or the zone is not known.
 */
export function standingSpec(
  tpu: LabTpu,
  site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>,
  known: { readonly project: string | null; readonly seenIn?: string | null },
): TpuSpec {
  return {
    kind: 'tpu',
    ownership: 'standing',
    mode: 'tpu-vm',
    project: projectOf(tpu, known.project),
    zone: tpu.zone ?? known.seenIn ?? onlyZone(tpu, site.zones),
    accelerator: tpu.accelerator,
    name: tpu.name,
    runtimeVersion: tpu.runtimeVersion ?? runtimeVersionOf(tpu),
    pricing: tpu.pricing,
    startupScript: null,
    networkTags: [],
    metadata: {},
    remoteUser: site.remoteUser,
    privateKey: site.privateKey,
    pricePerHour: null,
  };
}

export function projectOf({ name, project }: LabTpu, usual: string | null): string {
  const found = project ?? usual;
  if (found !== null) return found;
  throw new JobmanError(`Nothing says in which Google Cloud project ${name} is.`, exitCode.usage, [
    'jobman settings set tpu.project MY-PROJECT    the one of this lab; `emulator` is the built-in cloud',
  ]);
}

function onlyZone({ name, accelerator: type }: LabTpu, zones: readonly string[]): string {
  const [only, ...others] = zones;
  if (only !== undefined && others.length === 0) return only;
  const known = accelerator(type);
  const offering = known === undefined ? [] : zonesOffering(known);
  const [likely, ...more] = zones.filter((zone) => offering.includes(zone));
  if (likely !== undefined && more.length === 0) return likely;
  throw new JobmanError(`Nothing says in which zone ${name} is to be.`, exitCode.usage, [
    `tpu register ${name} zone=${likely ?? offering[0] ?? zones[0] ?? 'us-central2-b'}    says it`,
  ]);
}

function runtimeVersionOf({ name, accelerator: type }: LabTpu): string {
  const version = generationOf(type)?.runtimeVersion;
  if (version !== undefined) return version;
  throw new JobmanError(`${name} is a ${type}, which is no type of TPU that jobman knows.`, exitCode.usage, [
    'Types are like v4-8, v5litepod-16 or v6e-8; `jobman zones` lists them.',
  ]);
}
