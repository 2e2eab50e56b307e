// Doctor: the checks of `jobman doctor`. wiring/doctor.ts reads the facts; this file decides what they mean.

import type { NamedHost } from './hosts.ts';
import { day, second, type Duration, type Instant } from '../core/model/time.ts';
import { quote } from '../catalogue/shell.ts';
import { mailAddressOf } from '../core/model/notify.ts';
import type { MessageView, RecipientInUse } from './client.ts';
import { withTimeout } from './concurrency.ts';
import { formatOtherDatabase, otherDatabaseRemedy } from './database-url.ts';
import { JobmanError, messageOf, StoreError } from './errors.ts';
import type { HeldTpus } from './held-tpus.ts';
import { asClause, formatBytes, formatDate, formatDuration, formatList, pluralize } from './format.ts';
import { formatUse } from './notifications/recipients.ts';
import { mistakesOf } from './settings.ts';

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

/** A precondition of a check, such as "valid settings", and the check that names the fault if it is missing. */
export interface Need {
  readonly what: string;
  readonly check: Check;
}

/** One fault is one problem: a check that needs what another check has found missing is unknown. */
export function requires(needs: readonly Need[], check: Check): Check {
  return async () => {
    for (const need of needs) {
      const found = await need.check().catch(() => []);
      const isMet = found.length > 0 && found.every(({ state }) => state === 'ok' || state === 'warning');
      if (!isMet) return [unknown(`it needs ${need.what}`)];
    }
    return check();
  };
}

/** Prints `proc`, if jobman can find processes there, and a line with the number of GPUs, if CUDA's tools are there. */
export const hostScript = `[ -r /proc/self/environ ] && echo proc
[ -w "$HOME" ] && echo home
gpus=$(nvidia-smi --list-gpus 2>/dev/null) && printf 'gpus %s\\n' "$(printf '%s\\n' "$gpus" | grep -c ^GPU)"`;

export function checkHost(
  { name, ssh, gpus, command }: Pick<NamedHost, 'name' | 'gpus'> & { readonly ssh: string; readonly command: string },
  answer:
    | { readonly kind: 'no_answer'; readonly reason: string; readonly remedy?: string }
    | { readonly kind: 'ended'; readonly stdout: Uint8Array },
): Outcome {
  if (answer.kind === 'no_answer')
    return problem(`${name} cannot be reached: ${answer.reason}`, answer.remedy ?? command);
  const printed = new TextDecoder().decode(answer.stdout);
  if (!printed.includes('proc\n'))
    return problem(`${name} has no /proc, in which jobman finds the processes of a job: it must run Linux`, null);
  if (!printed.includes('home\n')) return problem(`${name}: its home folder cannot be written`, command);
  const found = /^gpus (\d+)$/m.exec(printed)?.[1];
  if (gpus !== null && found !== undefined && Number(found) < gpus)
    return warning(`${name} has ${pluralize(Number(found), 'GPU')}, and the settings say ${gpus}`, 'jobman hosts');
  return ok(`${name} (${ssh}) answers`);
}

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
    if (error instanceof StoreError) return [problem(asClause(error.message), `ls -l ${quote(file)}`)];
    return mistakesOf(error).map((line) => problem(line, `\${EDITOR:-vi} ${quote(file)}`));
  }
}

export interface HomeFacts {
  readonly folder: string;
  /** True if JOBMAN_HOME names it. */
  readonly isNamed: boolean;
  /** Of the path, or of its nearest parent if it does not exist. */
  readonly kind: 'folder' | 'absent' | 'other';
  readonly isReadable: boolean;
  readonly isWritable: boolean;
  readonly isReadOnlyFileSystem: boolean;
  readonly user: string;
  /** True for a folder of this user. */
  readonly isOwn: boolean;
}

export function checkHome(facts: HomeFacts): readonly Outcome[] {
  const { folder, isNamed, kind, isReadable, isWritable, isReadOnlyFileSystem, user, isOwn } = facts;
  const path = quote(folder);
  /** Without JOBMAN_HOME the home is `~/.jobman`. */
  const instead = (repair: string) => (isNamed ? 'unset JOBMAN_HOME' : repair);
  if (kind === 'other') return [problem(`${folder} is not a folder`, instead(`mv ${path} ${path}.old`))];
  if (isReadable && isWritable)
    return [ok(kind === 'absent' ? `${folder} does not exist yet; the first job creates it` : folder)];
  if (isReadOnlyFileSystem)
    return [problem(`${folder} is on a read-only file system`, instead(`findmnt --target ${path}`))];
  if (kind === 'absent')
    return [problem(`${user} cannot create ${folder}`, instead(`sudo install -d -m 700 -o ${quote(user)} ${path}`))];
  const message = `${user} cannot ${isReadable ? 'write to' : 'read'} ${folder}`;
  if (isOwn) return [problem(message, `chmod u+rwx ${path}`)];
  return [problem(`${message}, which belongs to another user`, instead(`sudo chown -R ${quote(user)} ${path}`))];
}

export interface DiskFacts {
  readonly folder: string;
  readonly freeBytes: number;
  /** Null where the file system has no limit. */
  readonly freeFiles: number | null;
}

const gigabyte = 1_000_000_000;
const minFreeFiles = 10_000;

/** The home has the database and the logs of all jobs. */
export function checkDisk({ folder, freeBytes, freeFiles }: DiskFacts): readonly Outcome[] {
  const remedy = 'jobman clean --all';
  const free = `${formatBytes(freeBytes)} are free for ${folder}`;
  if (freeBytes < gigabyte) return [problem(free, remedy)];
  if (freeFiles !== null && freeFiles < minFreeFiles)
    return [problem(`only ${pluralize(freeFiles, 'more file')} can be created in ${folder}`, remedy)];
  return [freeBytes < 5 * gigabyte ? warning(free, remedy) : ok(free)];
}

export interface DataFacts {
  /** The setting `server.data`. */
  readonly location: string;
  /** A clause with the location if it cannot be read and written. */
  readonly failure: string | null;
  /** The number of jobs whose logs are not there yet. */
  readonly waiting: number;
}

export function checkData({ location, failure, waiting }: DataFacts): readonly Outcome[] {
  const logs = waiting === 0 ? '' : `; the logs of ${pluralize(waiting, 'job')} wait in the home`;
  if (failure !== null) return [problem(`${asClause(failure)}${logs}`, 'jobman settings')];
  // A running controller sends them within seconds.
  return [ok(`${location} can be read and written${logs}`)];
}

/** `upgrade`: the command that installs a newer jobman. */
export function checkDatabaseError(error: StoreError, upgrade: string | null): Outcome {
  const message = asClause(error.message);
  if (error.kind === 'newer') return problem(message, upgrade);
  // "First: COMMAND", "To restore the backup of TIME: COMMAND", then sentences.
  const commands = error.lines.flatMap((line) => /^(?:First|To .*?): (.*)/.exec(line)?.[1] ?? []);
  return problem(message, commands.length > 0 ? commands.join('; ') : (error.lines[0] ?? null));
}

export interface PrivateFile {
  readonly path: string;
  readonly mode: number;
  readonly isSecret: boolean;
}

interface HomeFolder {
  readonly folder: string;
  readonly mode: number;
  readonly isShared: boolean;
}

/** In a shared home, the group may read what is in it. */
export function isOpenToOthers({ path, mode }: PrivateFile, { folder, isShared }: HomeFolder): boolean {
  return (mode & (isShared && path.startsWith(`${folder}/`) ? 0o007 : 0o077)) !== 0;
}

/** The secrets of the settings, the settings and the database. */
export function checkPrivacy(home: HomeFolder, files: readonly PrivateFile[]): readonly Outcome[] {
  const open = files.filter((file) => isOpenToOthers(file, home));
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
  /** The database of the controller if it is not the one of this command. */
  readonly otherDatabase: string | null;
  readonly ownVersion: string;
  readonly unfinishedJobs: number;
  /** Events in notifications that are not delivered yet. */
  readonly undelivered: number;
  readonly held: HeldTpus | null;
  /** As in `ControllerStatus`. */
  readonly silentSinceAt: Instant | null;
  /** Null: no controller holds the lease. */
  readonly leaseExpiresAt: Instant | null;
  readonly now: Instant;
}

export function checkController(facts: ControllerFacts): readonly Outcome[] {
  const {
    running,
    pid,
    version,
    isOutdated,
    otherDatabase,
    ownVersion,
    unfinishedJobs,
    undelivered,
    held,
    silentSinceAt,
    leaseExpiresAt,
    now,
  } = facts;
  const idle = [
    ...(unfinishedJobs === 0 ? [] : [`recovers ${pluralize(unfinishedJobs, 'unfinished job')}`]),
    ...(undelivered === 0 ? [] : [`reports ${pluralize(undelivered, 'undelivered event')}`]),
  ];
  if (!running && idle.length === 0 && held === null) return [ok('it does not run, because no job needs it')];
  if (!running)
    return [
      ...(idle.length === 0
        ? []
        : [problem(`it does not run, so nothing ${idle.join(' or ')}`, 'jobman controller start')]),
      ...(held === null
        ? []
        : [
            warning(
              `while it does not run, ${held.message}`,
              `${held.release.join(' · ')}    ${held.release.length === 1 ? 'releases' : 'release'} ${held.tpus + held.requests === 1 ? 'it' : 'them'}`,
            ),
          ]),
    ];
  const restart = 'jobman controller restart';
  const name = `process ${pid ?? 'unknown'}`;
  const found: Outcome[] = [];
  if (version !== null && version !== ownVersion)
    found.push(problem(`${name} is jobman ${version}, and this is jobman ${ownVersion}`, restart));
  else if (isOutdated)
    found.push(
      problem(
        `${name} runs an older build of jobman ${ownVersion}, which knows only an older version of the database`,
        restart,
      ),
    );
  if (otherDatabase !== null) found.push(problem(`${name} ${formatOtherDatabase(otherDatabase)}`, otherDatabaseRemedy));
  // It cannot answer a request to exit either. It may be killed at any time.
  else if (silentSinceAt !== null)
    found.push(
      problem(
        `${name} has not answered for ${formatDuration(now - silentSinceAt)}: it hangs`,
        pid === null ? restart : `kill -KILL ${pid}; jobman controller start`,
      ),
    );
  else if (leaseExpiresAt === null || leaseExpiresAt < now)
    found.push(problem(`${name} cannot write to the database, so it manages no job`, 'jobman controller logs'));
  return found.length > 0
    ? found
    : [ok(`${name}, jobman ${version ?? ownVersion}, runs; the lease of the database is renewed`)];
}

// ------------------------------------------------------------------------------------------ server

/** The files that the settings name. */
export interface ServerFacts {
  readonly certificate:
    | null
    | { readonly path: string; readonly problems: readonly string[] }
    | {
        readonly path: string;
        readonly problems: null;
        readonly names: readonly string[];
        readonly expiresAt: Instant;
        /** The host of `server.oidc` if the certificate does not name it; otherwise null. */
        readonly foreignHost: string | null;
      };
  readonly secretsKey: null | {
    readonly path: string;
    readonly problem: { message: string; remedy: string | null } | null;
  };
}

const renewalTime: Duration = 14 * day;

export function checkServer({ certificate, secretsKey }: ServerFacts, now: Instant): readonly Outcome[] {
  if (certificate === null && secretsKey === null) return [ok('the settings name no certificate and no key file')];
  return [
    ...(certificate === null ? [] : checkCertificate(certificate, now)),
    ...(secretsKey === null
      ? []
      : [
          secretsKey.problem === null
            ? ok(`${secretsKey.path} encrypts the secrets`)
            : problem(secretsKey.problem.message, secretsKey.problem.remedy),
        ]),
  ];
}

function checkCertificate(facts: NonNullable<ServerFacts['certificate']>, now: Instant): readonly Outcome[] {
  const { path, problems } = facts;
  if (problems !== null) return problems.map((line) => problem(line, null));
  const { names, expiresAt, foreignHost } = facts;
  if (names.length === 0) return [problem(`${path} names no host as subjectAltName, so no client accepts it`, null)];
  const what = `${path} is for ${formatList(names)}`;
  const until = formatDate(expiresAt, now);
  return [
    foreignHost === null
      ? ok(`${what}, until ${until}`)
      : problem(`${what}, and not for ${foreignHost}, the host of server.oidc`, null),
    ...(expiresAt - now < renewalTime
      ? [warning(`${path} expires on ${until}; a running server reads the renewed file by itself`, null)]
      : []),
  ];
}

// ------------------------------------------------------------------------------------------ notifications

/**
 * Checks the newest message to each recipient. `held`: phrases about events that wait. `broken`: recipients of the settings
 * that no message can reach. `removed`: such recipients that only jobs or undelivered events name.
 */
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
      `with these settings no message can reach ${one.recipient}, the recipient of ${formatUse(one)}`,
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
  /** The other login that owns it; null if it is this login's own. */
  readonly keyOwner: string | null;
  /** The reason why its text is not a key; null if it is one, or cannot be read. */
  readonly keyProblem: string | null;
  /** The mode of the folder with the key. */
  readonly folderMode: number | null;
  /** `none`: no SSH_AUTH_SOCK. Otherwise the failure of the connection, null if the agent answers. */
  readonly agent: 'none' | { readonly failure: string | null };
  /** The output of `ssh -V`; null without the program. */
  readonly program: string | null;
}

export function checkSsh(facts: SshFacts): readonly Outcome[] {
  const { keyFile, keyMode, isKeyReadable, keyOwner, keyProblem, folderMode, agent, program } = facts;
  const found: Outcome[] = [];
  if (program === null)
    found.push(
      warning(
        'PATH has no program ssh; `jobman ssh` and the bastions of ssh_config need it',
        'sudo apt-get install openssh-client',
      ),
    );
  // In a shared home only its owner reads the key.
  if (keyMode !== null && !isKeyReadable && keyOwner === null)
    found.push(problem(`this login cannot read ${keyFile}`, `ls -l ${quote(keyFile)}`));
  // jobman creates another key. Its workers get the new one with the next allocation.
  if (keyProblem !== null) found.push(problem(keyProblem, `mv ${quote(keyFile)} ${quote(keyFile)}.old`));
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
  const owned = keyOwner === null ? '' : ` of the login ${keyOwner}, whose controller uses it`;
  const key = keyMode === null ? 'the first TPU job creates its key' : `key ${keyFile}${owned}`;
  return [ok(`${program ?? 'ssh'}; ${key}; ${agent === 'none' ? 'no agent' : 'an agent answers'}`)];
}

export interface VersionFacts {
  readonly node: string;
  readonly jobman: string;
  readonly isBundle: boolean;
  /** A sentence about a newer version; null if none is known. */
  readonly newer: string | null;
  /** The command that installs it, if the clone is known. */
  readonly upgrade: string | null;
  /** The first lines of the versions of gcloud and kubectl, where they are used and exist. */
  readonly programs: readonly string[];
}

export function checkVersions({ node, jobman, isBundle, newer, upgrade, programs }: VersionFacts): readonly Outcome[] {
  const own = `jobman ${jobman}${isBundle ? '' : ' from its source (npm run build makes it start faster)'}, ${node}`;
  const versions = ok([own, ...programs].join(', '));
  return newer === null ? [versions] : [versions, warning(asClause(newer), upgrade)];
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

/** `proxy`: the variable that names a proxy for https; null without one. */
export function checkEndpoints(servers: readonly ReachFacts[], proxy: string | null): readonly Outcome[] {
  if (servers.length === 0) return [ok('no cloud is used')];
  const silent = servers.filter(({ failure }) => failure !== null);
  const hosts = (some: readonly ReachFacts[]) => formatList([...new Set(some.map(({ url }) => hostOf(url)))]);
  if (silent.length === 0) return [ok(`${hosts(servers)} answered`)];
  // A failure of a proxy names the server. Without that name, all failures with one cause are equal.
  const causeOf = ({ url, failure }: ReachFacts) => (failure ?? '').replaceAll(hostOf(url), 'the server');
  return [...Map.groupBy(silent, causeOf)].map(([cause, some]) => {
    const [{ url }] = some as [ReachFacts];
    const isProxied = proxy !== null && url.startsWith('https:');
    const certificates = /certificate/.test(cause)
      ? '; NODE_EXTRA_CA_CERTS names the file of a further certificate authority'
      : '';
    return problem(
      `no answer from ${hosts(some)}${isProxied ? ` through the proxy of ${proxy}` : ''}: ${asClause(cause)}${certificates}`,
      `curl -sv ${quote(url)}`,
    );
  });
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url;
}

/** Google refuses tokens whose times differ by some minutes from its own. The header has whole seconds. */
const maxSkew: Duration = 30 * second;

/** `servers`: those on other machines. */
export function checkClock(servers: readonly ReachFacts[]): readonly Outcome[] {
  if (servers.length === 0) return [ok('no server on another machine is used')];
  const skews = servers.flatMap(({ skewMs }) => skewMs ?? []);
  const [first] = skews;
  if (first === undefined) return [unknown('it needs the time of a server')];
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

/** The source of the login that jobman uses first. */
export type LoginSource =
  /** The setting tpu.tokenCommand. */
  | { readonly kind: 'command' }
  | {
      readonly kind: 'file';
      readonly file: string;
      /** True if GOOGLE_APPLICATION_CREDENTIALS names it. */
      readonly isNamed: boolean;
      readonly account: string | null;
    }
  /** A metadata server, which has no file, counts as gcloud. */
  | { readonly kind: 'gcloud'; readonly account: string | null };

export interface LoginFacts {
  readonly source: LoginSource;
  readonly state: 'accepted' | 'refused' | 'silent';
  /** The reason of the refusal or the silence. */
  readonly reason: string;
  /** A login is refused if this machine's clock is wrong. */
  readonly isClockWrong: boolean;
}

const userLogin = 'gcloud auth application-default login';

export function checkLogin({ source, state, reason, isClockWrong }: LoginFacts): readonly Outcome[] {
  const { name, repair } = describeLogin(source);
  if (state === 'accepted') return [ok(name)];
  if (isClockWrong) return [unknown('it needs a correct clock')];
  if (state === 'silent') return [problem(asClause(reason), 'curl -sv https://oauth2.googleapis.com')];
  const [first = ''] = reason.split('\n');
  // "ERROR: (gcloud.auth.print-access-token) You do not currently have an active account selected."
  const cause = first.replace(/^ERROR: \(\S+\) /, '');
  if (source.kind === 'gcloud' && /\bENOENT$/.test(cause))
    return [
      problem(
        'there is no login, and gcloud, which could create one, is not installed',
        'https://cloud.google.com/sdk/docs/install',
      ),
    ];
  return [problem(`${name} provides no login that Google Cloud accepts: ${asClause(cause)}`, repair)];
}

function describeLogin(source: LoginSource): { readonly name: string; readonly repair: string } {
  switch (source.kind) {
    case 'command':
      return {
        name: 'the command of the setting tpu.tokenCommand',
        repair: 'sh -c "$(jobman settings get tpu.tokenCommand)"',
      };
    case 'gcloud':
      return { name: `gcloud${source.account === null ? '' : ` (${source.account})`}`, repair: userLogin };
    case 'file': {
      const { file, isNamed, account } = source;
      const own = isNamed ? `unset GOOGLE_APPLICATION_CREDENTIALS; ${userLogin}` : userLogin;
      return {
        name: `${file}${account === null ? '' : ` (${account})`}`,
        repair:
          account !== null && isServiceAccount(account)
            ? `gcloud iam service-accounts keys create ${quote(file)} --iam-account ${quote(account)}`
            : own,
      };
    }
  }
}

function isServiceAccount(account: string): boolean {
  return account.endsWith('.gserviceaccount.com');
}

/** The account in the form that IAM commands take. */
export function memberOf(account: string | null): string {
  return account === null ? 'user:YOU' : `${isServiceAccount(account) ? 'serviceAccount' : 'user'}:${account}`;
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
    `gcloud projects add-iam-policy-binding ${quote(project)} --member ${quote(memberOf(account))} --role ${role}`;
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
