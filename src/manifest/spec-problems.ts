// Spec problems: checks a spec that a client has sent by the rules of the manifest that it could come from.

import { isAbsolute } from 'node:path/posix';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import {
  alternativesOf,
  nodeNamePlaceholder,
  runsCommandHere,
  secretRefsOf,
  workdirPlaceholder,
  type CapacitySpec,
  type HostName,
  type JobSpec,
  type RecoverySpec,
} from '../core/model/spec.ts';
import { second, type Duration } from '../core/model/time.ts';
import { treeOf } from '../schema/json.ts';
import type { Path } from '../schema/kinds.ts';
import { fileProblem, formatProblems, newFindings } from '../schema/problems.ts';
import { childOf, type Mapping } from '../schema/tree.ts';
import { isUrl, readWorkers } from './build.ts';
import { readCapacity } from './capacity.ts';
import type { ManifestContext } from './files.ts';
import { checkSecretName, readSecrets } from './job-files.ts';
import { duration, line } from './kinds.ts';
import { readNotify } from './notify.ts';
import { buildRecoverySpec } from './recovery.ts';
import { openSections, type Sections } from './sections.ts';
import { workerPath } from './setup-modules.ts';

/** All of them, for people. `hosts` and `channels`: as in `ManifestContext`. */
export function specProblems(
  spec: JobSpec,
  hosts: readonly HostName[],
  channels?: ManifestContext['channels'],
): readonly string[] {
  const { capacity: given, command, steps } = spec;
  const written = manifestOf(spec);
  // JSON without a list, a text or null on top is a map.
  const tree = treeOf(JSON.parse(JSON.stringify(written))) as Mapping;
  const findings = newFindings();
  const sections = openSections(tree, (name) => childOf(tree, name), 'create', findings);
  const nothing = { inspect: () => ({ kind: 'absent' }) as const, read: () => ({ detail: 'absent' }) };
  const own = { project: null, folder: '/', home: '/', env: {}, files: nothing };
  const context: ManifestContext = { ...own, hosts, purpose: 'create' };
  const remoteUser = given.kind === 'tpu' ? given.remoteUser : null;
  const capacity = readCapacity(sections, spec.name, remoteUser, context);
  for (const name of ['job', 'setup', 'command'] as const) sections.read(name);
  readNotify(sections, channels === undefined ? {} : { channels });
  readWorkers(sections, command.workers, capacity);
  readSecrets(sections, written.job.secrets, command.env, context);
  buildRecoverySpec(sections, undefined, capacity);
  checkPaths(sections, spec);
  for (const ref of secretRefsOf(spec)) {
    if (ref.kind !== 'localFile') continue;
    const message = `${ref.path} is a file of the controller's machine, which no new job may name`;
    sections.problem(['job', 'secrets'], message);
  }
  // `readSecrets` has checked the names of the command's.
  for (const ref of secretRefsOf({ ...spec, command: { ...command, secrets: {} } }))
    if ('secret' in ref) checkSecretName(sections, ['ssh', 'private_key'], ref.secret, context);
  const { failedCallTimeoutMs = second } = spec.limits;
  duration(second).read(treeOf(formatMs(failedCallTimeoutMs)), ['job', 'silence_timeout'], findings);
  for (const { name, key, timeoutMs } of steps) {
    for (const text of [name, key]) line().read(treeOf(text), ['setup', 'modules'], findings);
    duration(second).read(treeOf(formatMs(timeoutMs)), ['setup', name], findings);
  }
  const problems = findings.problems.map(({ path, message, suggestion = null }) => ({
    ...fileProblem(message),
    path,
    suggestion,
  }));
  return formatProblems('spec', problems);
}

/** A manifest whose values give this spec. Texts are final: nothing in them is interpolated again. */
function manifestOf({ name, tags, capacity, command, notify, recovery, limits, stop, finish }: JobSpec) {
  const { resumeFrom } = command;
  const secrets = Object.entries(command.secrets ?? {}).map(([variable, ref]) => [
    variable,
    `secret:${'secret' in ref ? ref.secret : variable}`,
  ]);
  return {
    job: {
      name,
      tags,
      env: command.env,
      secrets: Object.fromEntries(secrets) as Record<string, string>,
      remote_user: capacity.kind === 'tpu' ? capacity.remoteUser : null,
      checkpoint_dir: command.checkpointDir,
      resume_from: resumeFrom === undefined ? null : resumeFrom.kind === 'job' ? resumeFrom.job : resumeFrom.path,
      max_runtime: formatMs(limits.maxRuntimeMs),
      silence_timeout: formatMs(limits.silenceTimeoutMs),
      capacity_wait: formatMs(limits.capacityWaitMs),
      budget: limits.budgetUsd === undefined ? null : `${limits.budgetUsd} USD`,
      stop_signal: stop.signal,
      stop_grace: formatMs(stop.graceMs),
      on_finish: finish.capacity,
      keep_for: formatMs(finish.keepForMs),
      hold_on_failure: formatMs(finish.holdOnFailureMs),
    },
    ...capacityOf(capacity),
    setup: { tries: limits.setupTries },
    ...(command.isSetupOnly !== true && {
      command: {
        run: command.script,
        workers: command.workers,
        workdir: command.workdir,
        runs_on: command.runsOn === 'controller' ? 'here' : 'workers',
      },
    }),
    recovery: recoveryOf(recovery),
    ...omitUndefined({ notify }),
  };
}

function capacityOf(capacity: CapacitySpec): object {
  if (capacity.kind === 'hosts') return { hosts: capacity.hosts };
  const [own, ...alternatives] = alternativesOf(capacity).map(
    ({ zone, accelerator, pricing, runtimeVersion: version, topology }) =>
      omitUndefined({ zone, accelerator, pricing, version, topology }),
  );
  return {
    tpu: {
      ...own,
      project: capacity.project,
      name: capacity.name,
      ownership: capacity.ownership,
      allocation_mode: capacity.mode,
      tags: capacity.networkTags,
      metadata: capacity.metadata,
      alternatives,
      alternatives_wait: formatMs(capacity.alternativesWaitMs),
      reservation: capacity.reservation,
      network: capacity.network,
      subnetwork: capacity.subnetwork,
      service_account: capacity.serviceAccount,
      data_disks: capacity.dataDisks,
      node_count: capacity.nodeCount,
      valid_until: formatMs(capacity.validForMs),
    },
  };
}

function recoveryOf({ rules, customPatterns = [], budget, ...delays }: RecoverySpec): object {
  return {
    rules: rules.map(({ reason, evidence, answer, ...rule }) => ({
      reason,
      ...(evidence !== undefined && { [customPatterns.includes(evidence) ? 'log' : 'evidence']: evidence }),
      exit_code: rule.exitCodes,
      worker: rule.worker,
      then: answer.then,
      on: answer.on,
      avoid_zone: rule.avoidZone,
      limit: rule.limit,
      delay: formatMs(rule.delayMs),
      delay_max: formatMs(rule.delayMaxMs),
    })),
    budget: { preemptions: budget.preemptions, failures: budget.failures, setup_failures: budget.setupFailures },
    delay: formatMs(delays.delayMs),
    delay_max: formatMs(delays.delayMaxMs),
    unreachable_grace: formatMs(delays.unreachableGraceMs),
  };
}

/** Null for an absent one. */
function formatMs(duration: Duration | null | undefined): string | null {
  return duration === null || duration === undefined ? null : `${duration}ms`;
}

/** A manifest's paths are absolute, or below the login folder of a worker. */
function checkPaths(sections: Sections, spec: Pick<JobSpec, 'capacity' | 'command'>): void {
  const { workdir, checkpointDir, resumeFrom } = spec.command;
  const paths: readonly (readonly [Path, string | null])[] = [
    [['command', 'workdir'], workdir],
    [['job', 'checkpoint_dir'], checkpointDir],
    [['job', 'resume_from'], resumeFrom === undefined || resumeFrom.kind === 'job' ? null : resumeFrom.path],
  ];
  for (const [at, path] of paths) {
    if (path === null || isUrl(path) || path.startsWith(workdirPlaceholder)) continue;
    if (!runsCommandHere(spec)) workerPath(sections, at, path);
    else if (!isAbsolute(path.replaceAll(nodeNamePlaceholder, 'name')))
      sections.problem(at, `${path} is a relative path; write one that begins with /`);
  }
}
