// Builds the spec of a job for `tpu run`. Pure: the command reads its inputs.

import { quote } from '../catalogue/shell.ts';
import { basename } from 'node:path';
import { exitCode, JobmanError } from '../app/errors.ts';
import { findAccelerator, generationOf } from '../catalogue/accelerators.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { zonesOffering } from '../catalogue/zones.ts';
import { presets } from '../core/policy/presets.ts';
import { type CommandSpec, type JobSpec, type RecoverySpec, type SetupStep, type TpuSpec } from '../core/model/spec.ts';
import { minute, second } from '../core/model/time.ts';
import type { LabJob } from './lab-store.ts';
import { labScript } from './run-script.ts';
import type { Site } from './site.ts';
import { parseAccelerator, type LabTpu } from './tpus.ts';

/** The rules that a user can choose. Each is a preset of the core. */
export type LabRule = 'pre' | 'pass' | 'reapply' | 'rerun' | 'resume';

export function defaultRule({ pricing }: Pick<LabTpu, 'pricing'>): LabRule {
  return pricing === 'ondemand' ? 'pass' : 'pre';
}

export interface RunRequest {
  readonly directory: string;
  readonly tag: string | null;
  readonly capacity: TpuSpec;
  readonly steps: readonly SetupStep[];
  readonly rule: LabRule;
  /** False: no rule follows its end, regardless of `rule`. */
  readonly monitor: boolean;
  readonly stageLimit: Site['stageLimit'];
  readonly hangGraceMs: Site['hangGraceMs'];
  /** The command line for display, as a user would type it. */
  readonly commandLine: string;
  /** Variables of the scripts in addition to the controller's environment. */
  readonly env: CommandSpec['env'];
}

/** The spec of a job whose script runs on this machine and uses a persistent TPU. */
export function buildRunSpec(run: RunRequest): JobSpec {
  return {
    version: 2,
    name: jobName(run.directory),
    tags: run.tag === null ? [] : [run.tag],
    capacity: run.capacity,
    steps: run.steps,
    command: {
      script: labScript,
      userScript: run.commandLine,
      runsOn: 'controller',
      workers: 'all',
      env: run.env,
      // `tpu __begin` sets the folder: a resumed attempt runs the copy that the first attempt froze.
      workdir: null,
      checkpointDir: null,
    },
    recovery: recoveryOf(run),
    limits: {
      maxRuntimeMs: null,
      silenceTimeoutMs: null,
      failedCallTimeoutMs: run.hangGraceMs,
      capacityWaitMs: null,
      setupTries: 3,
    },
    // Within this minute the script also ends its programs on the workers.
    stop: { signal: 'TERM', graceMs: minute },
    finish: { capacity: 'release', keepForMs: null },
  };
}

function recoveryOf({ rule, monitor, stageLimit }: RunRequest): RecoverySpec {
  const preset = monitor ? rule : 'pass';
  return {
    preset,
    rules: presets[preset],
    budget: { preemptions: stageLimit, failures: stageLimit, setupFailures: 3 },
    delayMs: 5 * second,
    delayMaxMs: 5 * minute,
    unreachableGraceMs: 3 * minute,
  };
}

/** The spec on another TPU. The default rule of the old TPU becomes the default rule of the new one. */
export function retargetSpec(
  spec: JobSpec,
  to: { readonly capacity: TpuSpec; readonly steps: readonly SetupStep[] },
  labJob: Pick<LabJob, 'monitor'>,
): JobSpec {
  const { capacity, recovery } = spec;
  const wasDefault = capacity.kind === 'tpu' && recovery.preset === defaultRule(capacity);
  const preset = wasDefault && labJob.monitor ? defaultRule(to.capacity) : undefined;
  return {
    ...spec,
    capacity: to.capacity,
    steps: to.steps,
    recovery: preset === undefined ? recovery : { ...recovery, preset, rules: presets[preset] },
  };
}

/** The last part of the directory as a valid job name: no spaces, not only digits, nothing that looks like a flag. */
export function jobName(directory: string): string {
  const name = basename(directory)
    .replaceAll(/[\s\p{C}/]/gu, '_')
    .replace(/^-+/, '')
    .slice(0, 100);
  if (name === '') return 'run';
  return /^\d+$/.test(name) ? `run-${name}` : name;
}

/** The caller's variables for the scripts. Without secrets: the database stores them. */
export function scriptEnvironment(env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  const allowed =
    /^(PATH|LANG|LC_ALL|CLOUDSDK_(CONFIG|ACTIVE_CONFIG_NAME|CORE_PROJECT|CORE_ACCOUNT|AUTH_DISABLE_CREDENTIALS|API_ENDPOINT_OVERRIDES_[A-Z]+))$/;
  const entries = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && allowed.test(name) ? [[name, value] as const] : [],
  );
  return Object.fromEntries(entries);
}

/** `source staging.sh ka=... --config...`, quoted for a shell. */
export function formatCommandLine(tpu: string, configs: readonly string[]): string {
  return `source staging.sh ${[`ka=${tpu}`, ...configs].map(quote).join(' ')}`;
}

/** The TPU that ka.sh assigns to VM_NAME, or null. Throws JobmanError (2) if there are several. */
export function tpuInScript(text: string, file: string): string | null {
  const found = new Set<string>();
  for (const line of text.split('\n')) {
    const [, value = ''] =
      /^(?:[^#]*[\s;&])?(?:export\s+|declare\s+(?:-x\s+)?)?VM_NAME=("[^"]*"|'[^']*'|[^\s;&#]*)/.exec(line) ?? [];
    const name = literalValue(value.replace(/^(["'])(.*)\1$/, '$2'));
    if (name !== null) found.add(name);
  }
  const [first, ...others] = found;
  if (first === undefined) return null;
  if (others.length === 0) return first;
  throw new JobmanError(`${file} names several TPUs: ${[...found].join(', ')}.`, exitCode.usage, [
    'Give the TPU: tpu run <tpu> <user>',
  ]);
}

function literalValue(value: string): string | null {
  const [, otherwise] = /^\$\{\w+:?-([\w.-]+)\}$/.exec(value) ?? [];
  const name = otherwise ?? value;
  return /^[\w.-]+$/.test(name) ? name : null;
}

/** The TPUs of these types; all TPUs if `types` is empty. */
export function tpusOfTypes(tpus: readonly LabTpu[], types: readonly string[]): readonly LabTpu[] {
  if (types.length === 0) return tpus;
  const wanted = new Set(types.map((type) => parseAccelerator(type) ?? type));
  return tpus.filter(({ accelerator }) => wanted.has(accelerator));
}

/**
 * `lr=0.01` by the user's aliases, `config.a.b=v` as `--config.a.b=v`. The last value counts. Throws JobmanError (2).
 */
export function configArguments(
  configs: readonly (readonly [key: string, value: string])[],
  aliases: Readonly<Record<string, string>>,
  otherKeys: readonly string[],
): readonly string[] {
  const values = new Map<string, string>();
  const problems: string[] = [];
  for (const [key, value] of configs) {
    const full = Object.hasOwn(aliases, key) ? aliases[key] : key.startsWith('config.') ? key : undefined;
    if (full === undefined || full === 'config.') {
      const near = didYouMean(key, [...Object.keys(aliases), ...otherKeys]);
      const guess = near === undefined ? '' : ` Did you mean ${near}=?`;
      problems.push(
        `\`${key}\` is neither one of your config aliases nor a config key, which begins with \`config.\`.${guess}`,
      );
    } else values.set(full, value);
  }
  const [first, ...rest] = problems;
  if (first !== undefined)
    throw new JobmanError(first, exitCode.usage, [
      ...rest,
      'tpu show-config-alias    lists your aliases; tpu add-config-alias ALIAS KEY adds one',
    ]);
  return [...values].map(([key, value]) => `--${key}=${value}`);
}

/** `foundZone` is the zone that the cloud reports. Throws JobmanError (2) if the project or the zone is unknown. */
export function persistentTpuSpec(
  tpu: LabTpu,
  site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>,
  known: { readonly project: string | null; readonly foundZone?: string | null },
): TpuSpec {
  return {
    kind: 'tpu',
    ownership: 'persistent',
    mode: 'tpu-vm',
    project: projectOf(tpu, known.project),
    zone: tpu.zone ?? known.foundZone ?? inferZone(tpu, site.zones),
    accelerator: tpu.accelerator,
    name: tpu.name,
    runtimeVersion: tpu.runtimeVersion ?? runtimeVersionOf(tpu),
    pricing: tpu.pricing,
    startupScript: null,
    networkTags: [],
    metadata: {},
    remoteUser: site.remoteUser,
    privateKey: site.privateKey === null ? null : { kind: 'setting', setting: 'lab.privateKey' },
    pricePerHourUsd: null,
  };
}

export function projectOf({ name, project }: LabTpu, defaultProject: string | null): string {
  const found = project ?? defaultProject;
  if (found !== null) return found;
  throw new JobmanError(`The Google Cloud project of ${name} is unknown.`, exitCode.usage, [
    "jobman settings set tpu.project MY-PROJECT    sets the lab's project; `emulator` is the TPU emulator",
  ]);
}

function inferZone({ name, accelerator }: LabTpu, zones: readonly string[]): string {
  const [only, ...others] = zones;
  if (only !== undefined && others.length === 0) return only;
  const known = findAccelerator(accelerator);
  const offering = known === undefined ? [] : zonesOffering(known);
  const [likely, ...more] = zones.filter((zone) => offering.includes(zone));
  if (likely !== undefined && more.length === 0) return likely;
  throw new JobmanError(`The zone of ${name} is unknown.`, exitCode.usage, [
    `tpu register ${name} zone=${likely ?? offering[0] ?? zones[0] ?? 'us-central2-b'}    sets it`,
  ]);
}

function runtimeVersionOf({ name, accelerator }: LabTpu): string {
  const version = generationOf(accelerator)?.runtimeVersion;
  if (version !== undefined) return version;
  throw new JobmanError(`${name} has the unknown TPU type ${accelerator}.`, exitCode.usage, [
    'Types are v4-8, v5litepod-16, v6e-8, ...; `jobman zones` lists them.',
  ]);
}
