// Doctor: the checks of `jobman doctor`. wiring/doctor.ts reads the facts; this file decides what they mean.

import { day, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import { quote } from '../catalogue/shell.ts';
import { mailAddressOf } from '../core/model/notify.ts';
import type { MessageView, RecipientInUse } from './client.ts';
import { withTimeout } from './concurrency.ts';
import { JobmanError, messageOf } from './errors.ts';
import { asClause, formatBytes, formatDuration, formatList, pluralize } from './format.ts';
import { formatUse } from './notifications/recipients.ts';

/** The result of a check, as a sentence. Also the form of `tpu doctor`. */
export interface Finding {
  /** The name of the check. */
  readonly check: string;
  readonly message: string;
  /** The command that repairs it or shows more, or advice; null if nothing is wrong, or nothing can be advised. */
  readonly remedy: string | null;
}

export interface CheckResult extends Finding {
  /** `warning`: jobman works, but something needs attention. `problem`: something is wrong. `unknown`: the check could not run. */
  readonly state: 'ok' | 'warning' | 'problem' | 'unknown';
}

export type Outcome = Omit<CheckResult, 'check'>;

/** Changes nothing. Rejects if it cannot run; the message says why. */
export type Check = () => Promise<readonly Outcome[]>;

export const ok = (message: string): Outcome => ({ state: 'ok', message, remedy: null });
export const problem = (message: string, remedy: string | null): Outcome => ({ state: 'problem', message, remedy });
export const warning = (message: string, remedy: string | null): Outcome => ({ state: 'warning', message, remedy });
export const unknown = (message: string, remedy: string | null = null): Outcome => ({
  state: 'unknown',
  message,
  remedy,
});

const checkTimeout: Duration = 25 * second;

/**
 * Runs all checks at once, each for at most `timeout`. The results have the order of `checks`; `onChange` gets the names of
 * the checks that still run.
 */
export async function runDoctor(
  checks: Readonly<Record<string, Check>>,
  onChange: (running: readonly string[]) => void = () => undefined,
  timeout: Duration = checkTimeout,
): Promise<readonly CheckResult[]> {
  const running = new Set(Object.keys(checks));
  onChange([...running]);
  const results = Object.entries(checks).map(async ([check, run]) => {
    const late = () => [unknown(`it did not finish within ${formatDuration(timeout)}`)];
    const outcomes = await withTimeout(
      timeout,
      run().catch((error: unknown) => [failedCheck(error)]),
      late,
    );
    running.delete(check);
    onChange([...running]);
    return outcomes.map((outcome) => ({ check, ...outcome }));
  });
  return (await Promise.all(results)).flat();
}

/** The first line of a JobmanError is the remedy. */
export function failedCheck(error: unknown): Outcome {
  return unknown(asClause(messageOf(error)), error instanceof JobmanError ? (error.lines[0] ?? null) : null);
}

// ------------------------------------------------------------------------------------------ settings, home

/** Reads the settings; every problem of the files is one outcome. */
export async function checkSettings(file: string, read: () => Promise<unknown>): Promise<readonly Outcome[]> {
  try {
    await read();
    return [ok(`${file} and the environment are valid`)];
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const lines = error.lines.length === 0 ? [error.message] : error.lines;
    return lines.map((line) => problem(line, `edit ${file}`));
  }
}

export interface DiskFacts {
  readonly folder: string;
  readonly exists: boolean;
  readonly isWritable: boolean;
  readonly freeBytes: number;
  /** Null where the file system has no limit. */
  readonly freeFiles: number | null;
}

const gigabyte = 1_000_000_000;
const minFreeFiles = 10_000;

/** The home has the database and the logs of all jobs. */
export function checkDisk({ folder, exists, isWritable, freeBytes, freeFiles }: DiskFacts): readonly Outcome[] {
  if (!isWritable) return [problem(`${folder} cannot be written`, `ls -ld ${quote(folder)}`)];
  const what = exists ? folder : `${folder}, which the first job creates`;
  const remedy = 'jobman clean JOB    removes the files of a finished job';
  const free = `${formatBytes(freeBytes)} are free for ${what}`;
  if (freeBytes < gigabyte) return [problem(free, remedy)];
  if (freeFiles !== null && freeFiles < minFreeFiles)
    return [problem(`only ${pluralize(freeFiles, 'more file')} can be created in ${folder}`, remedy)];
  return [freeBytes < 5 * gigabyte ? warning(free, remedy) : ok(free)];
}

export interface PrivateFile {
  readonly path: string;
  readonly mode: number;
  readonly isSecret: boolean;
}

/** The secrets of the settings, the settings and the database. In a shared home, the group may read what is in it. */
export function checkPrivacy(
  home: { readonly folder: string; readonly mode: number; readonly isShared: boolean },
  files: readonly PrivateFile[],
): readonly Outcome[] {
  const isOpen = ({ path, mode }: PrivateFile): boolean =>
    (mode & (home.isShared && path.startsWith(`${home.folder}/`) ? 0o007 : 0o077)) !== 0;
  const open = files.filter(isOpen);
  const secrets = open.filter(({ isSecret }) => isSecret).map(({ path }) => path);
  // Other users cannot reach a file in a folder that is closed to them.
  const isReachable = (home.mode & (home.isShared ? 0o001 : 0o011)) !== 0;
  const others = isReachable ? open.filter(({ isSecret }) => !isSecret).map(({ path }) => path) : [];
  const found = [
    ...secrets.map((path) => problem(`other users may read the secret in ${path}`, `chmod 600 ${quote(path)}`)),
    ...(others.length === 0
      ? []
      : [
          warning(
            `other users may read ${formatList(others)}`,
            `chmod ${home.isShared ? '2770' : '700'} ${quote(home.folder)}`,
          ),
        ]),
  ];
  return found.length > 0 ? found : [ok('no other user can read the settings and the database')];
}

// ------------------------------------------------------------------------------------------ controller

export interface ControllerFacts {
  readonly running: boolean;
  readonly pid: number | null;
  readonly version: string | null;
  /** It knows an older version of the database. */
  readonly isOutdated: boolean;
  readonly ownVersion: string;
  readonly unfinishedJobs: number;
  /** Null: no controller holds the lease. */
  readonly leaseExpiresAt: Instant | null;
  /** The earliest time at which a job is due; null without one. */
  readonly nextPassAt: Instant | null;
  readonly now: Instant;
}

/** A pass that is due starts within seconds, but waits for slow clouds. */
const latePass: Duration = 5 * minute;

export function checkController(facts: ControllerFacts): readonly Outcome[] {
  const { running, pid, version, isOutdated, ownVersion, unfinishedJobs, leaseExpiresAt, nextPassAt, now } = facts;
  if (!running && unfinishedJobs === 0) return [ok('it does not run, because no job needs it')];
  if (!running)
    return [
      problem(
        `it does not run, so nothing recovers ${pluralize(unfinishedJobs, 'unfinished job')}`,
        'jobman controller start',
      ),
    ];
  const restart = 'jobman controller restart';
  const name = `process ${pid ?? 'unknown'}`;
  const found: Outcome[] = [];
  if (version !== null && version !== ownVersion)
    found.push(problem(`${name} is jobman ${version}, and this is jobman ${ownVersion}`, restart));
  else if (isOutdated)
    found.push(problem(`${name} runs an older build of jobman ${ownVersion}, which knows an older database`, restart));
  if (leaseExpiresAt === null || leaseExpiresAt < now)
    found.push(problem(`${name} runs and does not hold the lease of the database`, restart));
  if (nextPassAt !== null && now - nextPassAt > latePass)
    found.push(problem(`${name} should have checked a job ${formatDuration(now - nextPassAt)} ago`, restart));
  return found.length > 0
    ? found
    : [ok(`${name}, jobman ${version ?? ownVersion}, holds the lease; no job is overdue`)];
}

// ------------------------------------------------------------------------------------------ notifications

/** The newest message to each recipient; `held` are phrases about events that wait, `broken` the recipients of the settings that they cannot reach, `removed` such recipients that only jobs or events have. */
export function checkNotifications(
  recipients: readonly string[],
  messages: readonly Pick<MessageView, 'recipient' | 'error' | 'state'>[],
  held: readonly { readonly recipient: string; readonly phrase: string }[] = [],
  broken: readonly { readonly recipient: string; readonly problem: string }[] = [],
  removed: readonly RecipientInUse[] = [],
): readonly Outcome[] {
  const gone = removed.map((one) => {
    const name = quote(one.recipient);
    const drop = one.events === 0 ? '' : `, or drop the events: jobman notify drop ${name}`;
    const repair =
      mailAddressOf(one.recipient) === undefined
        ? `jobman settings set notify.channels.${one.recipient} VALUE`
        : 'jobman settings set notify.smtp VALUE';
    return problem(
      `the settings cannot reach ${one.recipient}, the recipient of ${formatUse(one)}`,
      `${repair}${drop}`,
    );
  });
  const waiting = [
    ...gone,
    ...held.flatMap(({ recipient, phrase }) =>
      removed.some((one) => one.recipient === recipient) ? [] : [ok(phrase)],
    ),
  ];
  const unreachable = broken.map(({ recipient, problem: why }) =>
    problem(`no message can reach ${recipient}: ${asClause(why)}`, `jobman notify test ${quote(recipient)}`),
  );
  if (recipients.length === 0 && waiting.length > 0) return waiting;
  if (recipients.length === 0) return [ok('no recipient is set')];
  const failed = recipients
    .filter((recipient) => broken.every((one) => one.recipient !== recipient))
    .flatMap((recipient) => messages.find((one) => one.recipient === recipient) ?? [])
    .filter(({ state, error }) => state !== 'sent' && error !== null);
  if (failed.length + unreachable.length === 0)
    return [ok(`${formatList(recipients)}; \`jobman notify test\` sends a test message`), ...waiting];
  const problems = failed.map(({ recipient, error, state }) =>
    problem(
      `the newest message to ${recipient} ${state === 'pending' ? 'is not delivered yet' : 'was not delivered'}: ${asClause(error ?? '')}`,
      `jobman notify test ${quote(recipient)}`,
    ),
  );
  return [...unreachable, ...problems, ...waiting];
}

// ------------------------------------------------------------------------------------------ SSH, programs

export interface SshFacts {
  readonly keyFile: string;
  /** Null: it does not exist yet. */
  readonly keyMode: number | null;
  /** True if this login can read it. */
  readonly isKeyReadable: boolean;
  /** Of its folder. */
  readonly folderMode: number | null;
  /** `none`: no SSH_AUTH_SOCK. Else the failure of the connection, or null. */
  readonly agent: 'none' | { readonly failure: string | null };
  /** The output of `ssh -V`; null without the program. */
  readonly program: string | null;
}

export function checkSsh(facts: SshFacts): readonly Outcome[] {
  const { keyFile, keyMode, isKeyReadable, folderMode, agent, program } = facts;
  const found: Outcome[] = [];
  if (program === null)
    found.push(
      warning('there is no program ssh; `jobman ssh` and the bastions of ssh_config need it', 'install OpenSSH'),
    );
  if (keyMode !== null && !isKeyReadable)
    found.push(problem(`this login cannot read ${keyFile}`, `ls -l ${quote(keyFile)}`));
  if (keyMode !== null && (keyMode & 0o077) !== 0)
    found.push(problem(`other users may read ${keyFile}, so ssh refuses it`, `chmod 600 ${quote(keyFile)}`));
  if (folderMode !== null && (folderMode & 0o002) !== 0)
    found.push(
      problem(`other users may replace ${keyFile}`, `chmod o-w ${quote(keyFile.slice(0, keyFile.lastIndexOf('/')))}`),
    );
  if (agent !== 'none' && agent.failure !== null)
    found.push(
      warning(`the SSH agent of SSH_AUTH_SOCK does not answer: ${asClause(agent.failure)}`, 'eval "$(ssh-agent)"'),
    );
  if (found.length > 0) return found;
  const key = keyMode === null ? 'the first TPU job creates its key' : `key ${keyFile}`;
  return [ok(`${program ?? 'ssh'}; ${key}; ${agent === 'none' ? 'no agent' : 'an agent answers'}`)];
}

export interface VersionFacts {
  readonly node: string;
  readonly jobman: string;
  readonly isBundle: boolean;
  /** A sentence about a newer version; null if none is known. */
  readonly newer: string | null;
  /** The first line of its version, or null without the program; undefined if nothing needs it. */
  readonly gcloud: string | null | undefined;
  readonly kubectl: string | null | undefined;
}

export function checkVersions(facts: VersionFacts): readonly Outcome[] {
  const { node, jobman, isBundle, newer, gcloud, kubectl } = facts;
  const found: Outcome[] = [];
  if (newer !== null) found.push(warning(asClause(newer), 'git pull && npm install    in the clone of jobman'));
  if (gcloud === null)
    found.push(
      warning('there is no gcloud; jobman uses it only for its login', 'gcloud: https://cloud.google.com/sdk'),
    );
  if (kubectl === null)
    found.push(
      warning('there is no kubectl; jobman does not need it', 'kubectl: https://kubernetes.io/docs/tasks/tools'),
    );
  const programs = [gcloud, kubectl].filter((one) => one !== undefined && one !== null);
  const own = `jobman ${jobman}${isBundle ? '' : ' from its source (npm run build makes it start faster)'}, ${node}`;
  return [ok([own, ...programs].join(', ')), ...found];
}

// ------------------------------------------------------------------------------------------ clouds

/** The answer of a server without a login. */
export interface ReachFacts {
  readonly name: string;
  readonly url: string;
  /** Null: it answered. */
  readonly failure: string | null;
  /** Its clock minus ours; null without a date, or on this machine. */
  readonly skewMs: Duration | null;
}

export function checkEndpoints(servers: readonly ReachFacts[]): readonly Outcome[] {
  if (servers.length === 0) return [ok('no cloud is used')];
  const silent = servers.filter(({ failure }) => failure !== null);
  if (silent.length === 0) return [ok(`${formatList([...new Set(servers.map(({ url }) => hostOf(url)))])} answered`)];
  return [...Map.groupBy(silent, ({ url }) => url)].map(([url, some]) =>
    problem(
      `${hostOf(url)} (${formatList(some.map(({ name }) => name))}) does not answer: ${asClause(some[0]?.failure ?? '')}`,
      `curl -sv ${quote(url)}    shows the cause; HTTPS_PROXY names a proxy`,
    ),
  );
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url;
}

/** Google refuses tokens whose times differ by some minutes from its own. The header has whole seconds. */
const maxSkew: Duration = 30 * second;

export function checkClock(servers: readonly ReachFacts[]): readonly Outcome[] {
  const skews = servers.flatMap(({ skewMs }) => skewMs ?? []);
  const [first] = skews;
  if (first === undefined) return [unknown('no server on another machine reported its time')];
  const smallest = skews.reduce((least, one) => (Math.abs(one) < Math.abs(least) ? one : least), first);
  if (Math.abs(smallest) <= maxSkew) return [ok('it agrees with the servers')];
  const size =
    Math.abs(smallest) > day ? formatDuration(Math.abs(smallest)) : `${Math.round(Math.abs(smallest) / second)} s`;
  return [
    problem(
      `this machine's clock is ${size} ${smallest > 0 ? 'behind' : 'ahead of'} the servers`,
      'sudo timedatectl set-ntp true',
    ),
  ];
}

/** Without one of them no TPU job runs. Source: docs.cloud.google.com/iam/docs/roles-permissions/tpu */
const requiredPermissions: readonly string[] = [
  'tpu.nodes.create',
  'tpu.nodes.delete',
  'tpu.nodes.get',
  'tpu.nodes.list',
  'tpu.operations.get',
  'tpu.operations.list',
];

/** Each with the command that needs it, and a role that has it. */
const optionalPermissions: Readonly<Record<string, { readonly command: string; readonly role: string }>> = {
  'cloudquotas.quotas.get': { command: 'jobman quota', role: 'roles/cloudquotas.viewer' },
  'storage.buckets.list': { command: 'jobman storage', role: 'roles/storage.bucketViewer' },
  'monitoring.timeSeries.list': { command: 'jobman storage', role: 'roles/monitoring.viewer' },
  'bigquery.jobs.create': { command: 'jobman billing', role: 'roles/bigquery.jobUser' },
};

/** Needed only in the project that runs the queries of `jobman billing`. */
export const billingPermission = 'bigquery.jobs.create';

/** Needed in a project of TPU jobs. */
export const tpuPermissions: readonly string[] = [
  ...requiredPermissions,
  ...Object.keys(optionalPermissions).filter((name) => name !== billingPermission),
];

export function checkPermissions(
  project: string,
  missing: readonly string[],
  account: string | null,
): readonly Outcome[] {
  const grant = (role: string) =>
    `gcloud projects add-iam-policy-binding ${quote(project)} --member user:${quote(account ?? 'YOU')} --role ${role}`;
  const required = missing.filter((one) => requiredPermissions.includes(one));
  const optional = missing.filter((one) => !requiredPermissions.includes(one));
  const results = [
    ...(required.length === 0
      ? []
      : [
          problem(
            `${project}: missing ${formatList(required)}, without which no TPU job runs`,
            grant('roles/tpu.admin'),
          ),
        ]),
    ...optional.map((one) => {
      const { command = 'jobman', role = 'roles/viewer' } = optionalPermissions[one] ?? {};
      return warning(`${project}: missing ${one}, which \`${command}\` needs`, grant(role));
    }),
  ];
  return results.length === 0 ? [ok(`${project}: the login has every permission that jobman needs`)] : results;
}
