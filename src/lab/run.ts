// Run: what `tpu run` asks for, as a job of the record. Pure: the command finds out what is said and what is there.

import { exitCode, JobmanError } from '../app/errors.ts';
import { presets } from '../core/recover.ts';
import type { CommandSpec, JobSpec, RecoverySpec, SetupStep, TpuSpec } from '../core/spec.ts';
import { minute, second } from '../core/time.ts';
import { acceleratorCalled } from './names-of-tpus.ts';
import { labScript } from './script.ts';
import { shellWord } from './shell-words.ts';
import type { Site } from './site.ts';
import type { LabTpu } from './tpus.ts';
import type { LabJob } from './windows.ts';

/** The rules that a line may name; each is a preset of the core. */
export type LabRule = 'pre' | 'pass' | 'reapply' | 'rerun' | 'resume';

/** The rule of a job whose line names none. */
export function usualRule({ pricing }: Pick<LabTpu, 'pricing'>): LabRule {
  return pricing === 'ondemand' ? 'pass' : 'pre';
}

/** What stands in the spec of a job of `tpu run`. */
export interface RunSpec {
  readonly directory: string;
  readonly tag: string | null;
  readonly capacity: TpuSpec;
  /** What the workers go through after they were made anew: mounts, logins. */
  readonly steps: readonly SetupStep[];
  readonly rule: LabRule;
  /** False: no rule answers its end, whatever `rule` says. */
  readonly monitor: boolean;
  readonly stageLimit: Site['stageLimit'];
  readonly hangGrace: Site['hangGrace'];
  /** For people: the line that is run, as they would type it. */
  readonly written: string;
  readonly launcher: readonly string[];
  /** What the scripts find in their environment beside the controller's own. */
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
 * What of the environment of whoever types the scripts get: the controller may have been started by somebody else, from
 * elsewhere. Nothing that is secret: it stands in the record.
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

// ------------------------------------------------------------------------------------------ which TPU

/**
 * The TPU that the text of ka.sh names, without running it: what it assigns to VM_NAME. Null where it names none. Throws
 * JobmanError (2) where it names several, because which one counts only a shell could tell.
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

/** The name in `name`, `${1:-name}` and `${VM_NAME:-name}`; null where it comes from elsewhere. */
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
