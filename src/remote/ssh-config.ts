// The user's own ssh_config, as OpenSSH itself understands it: `ssh -G host` prints what would be done for that host.

import { isAbsolute, join } from 'node:path';
import { createGate } from '../app/fan-out.ts';
import { runProcess } from './process.ts';

export interface SshConfig {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly keyFiles: readonly string[];
  /** Certificates that the configuration names. They cannot be used in process. */
  readonly certificates: readonly string[];
  /** The agent's socket: null when there is none or none is to be used. */
  readonly agent: string | null;
  readonly proxy: readonly string[] | null;
  /** Whether it limits how long a host may take to answer (ConnectTimeout), and to be silent then (ServerAliveInterval). */
  readonly limits: { readonly connecting: boolean; readonly silence: boolean };
}

export interface SshQuestion {
  readonly host: string;
  readonly port: number | null;
  readonly user: string | null;
}

export interface SshDefaults {
  readonly user: string;
  readonly userHome: string;
  readonly agent: string | null;
  /** Further arguments of the system's ssh, such as `-F file`. */
  readonly sshArgs: readonly string[];
}

/** How long an answer of `ssh -G` is believed: a person who edits the file sees it soon. */
const believedMs = 60_000;

/** Asks `ssh -G` and remembers the answer for a minute. Without an ssh program the defaults hold. */
export function createSshConfigs(defaults: SshDefaults): (question: SshQuestion) => Promise<SshConfig> {
  const answers = new Map<string, { readonly at: number; readonly config: Promise<SshConfig> }>();
  const gate = createGate(4);
  async function ask(question: SshQuestion): Promise<SshConfig> {
    const result = await runProcess({
      argv: [
        'ssh',
        ...defaults.sshArgs,
        '-G',
        ...(question.port === null ? [] : ['-p', String(question.port)]),
        ...(question.user === null ? [] : ['-l', question.user]),
        question.host,
      ],
      timeoutMs: 5_000,
      outputMost: 200_000,
    });
    if (result.exitCode !== 0) return plainSshConfig(question, defaults);
    return parseSshConfig(new TextDecoder().decode(result.stdout), question, defaults);
  }
  return (question) => {
    const key = `${question.user}@${question.host}:${question.port}`;
    const held = answers.get(key);
    if (held !== undefined && performance.now() - held.at < believedMs) return held.config;
    const config = gate(() => ask(question));
    answers.set(key, { at: performance.now(), config });
    return config;
  };
}

export function plainSshConfig(question: SshQuestion, defaults: SshDefaults): SshConfig {
  return {
    host: question.host,
    port: question.port ?? 22,
    user: question.user ?? defaults.user,
    keyFiles: [],
    certificates: [],
    agent: defaults.agent,
    proxy: null,
    limits: { connecting: false, silence: false },
  };
}

export function parseSshConfig(text: string, question: SshQuestion, defaults: SshDefaults): SshConfig {
  const values = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const space = line.indexOf(' ');
    if (space < 0) continue;
    const key = line.slice(0, space).toLowerCase();
    values.set(key, [...(values.get(key) ?? []), line.slice(space + 1)]);
  }
  const first = (key: string): string | undefined => values.get(key)?.[0];
  const host = first('hostname') ?? question.host;
  const port = Number(first('port') ?? question.port ?? 22);
  const user = first('user') ?? question.user ?? defaults.user;
  const path = (name: string): string =>
    absolute(expandTokens(name, { host, port, user, name: question.host, defaults }), defaults);
  const jump = first('proxyjump');
  const command = first('proxycommand');
  let proxy: readonly string[] | null = null;
  if (jump !== undefined && jump !== 'none') proxy = jumpArgv(jump, host, port, defaults.sshArgs);
  else if (command !== undefined && command !== 'none') {
    proxy = ['/bin/sh', '-c', `exec ${expandTokens(command, { host, port, user, name: question.host, defaults })}`];
  }
  return {
    host,
    port,
    user,
    keyFiles: (values.get('identityfile') ?? []).filter((name) => name !== 'none').map(path),
    certificates: (values.get('certificatefile') ?? []).filter((name) => name !== 'none').map(path),
    agent: agentOf(first('identityagent'), path, defaults.agent),
    proxy,
    // Unset options are printed as well, as `none` and as 0.
    limits: {
      connecting: (first('connecttimeout') ?? 'none') !== 'none',
      silence: (first('serveraliveinterval') ?? '0') !== '0',
    },
  };
}

function agentOf(value: string | undefined, path: (name: string) => string, usual: string | null): string | null {
  if (value === undefined || value === 'SSH_AUTH_SOCK') return usual;
  // A variable's name after a dollar sign: only the usual one is handed down to us.
  if (value.startsWith('$')) return value.includes('SSH_AUTH_SOCK') ? usual : null;
  return value === 'none' ? null : path(value);
}

/** The last machine of the chain makes the line; the ones before it are its own jumps. */
function jumpArgv(jump: string, host: string, port: number, sshArgs: readonly string[]): readonly string[] {
  const hops = jump.split(',').map((hop) => hop.trim());
  const last = hops.pop() ?? '';
  return [
    'ssh',
    ...sshArgs,
    '-o',
    'BatchMode=yes',
    ...(hops.length === 0 ? [] : ['-J', hops.join(',')]),
    '-W',
    host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    last.startsWith('ssh://') ? last : `ssh://${last}`,
  ];
}

/** The tokens of ssh_config(5) that a path or a ProxyCommand may hold. */
function expandTokens(
  text: string,
  facts: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly name: string;
    readonly defaults: SshDefaults;
  },
): string {
  const tokens: Readonly<Record<string, string>> = {
    '%': '%',
    h: facts.host,
    n: facts.name,
    p: String(facts.port),
    r: facts.user,
    u: facts.defaults.user,
    d: facts.defaults.userHome,
  };
  return text.replaceAll(/%(.)/gu, (whole, letter: string) => tokens[letter] ?? whole);
}

function absolute(path: string, defaults: SshDefaults): string {
  if (path.startsWith('~/')) return join(defaults.userHome, path.slice(2));
  return isAbsolute(path) ? path : join(defaults.userHome, '.ssh', path);
}

/** True for a host name or an address. The cloud names hosts, and another text could become an option of ssh or a new line of its file. */
export function isHostName(text: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.:%-]*$/u.test(text);
}
