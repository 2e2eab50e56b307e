// The user's ssh_config as OpenSSH itself interprets it: `ssh -G host` prints the settings for that host.

import { isAbsolute, join } from 'node:path';
import { createLimiter } from '../app/concurrency.ts';
import type { SshHost } from '../app/worker-access.ts';
import { quote } from '../catalogue/shell.ts';
import { runProcess } from './process.ts';

export interface SshConfig {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly keyFiles: readonly string[];
  /** They cannot be used in process. */
  readonly certificates: readonly string[];
  /** The socket; null without an agent or when the configuration disables it. */
  readonly agent: string | null;
  readonly proxy: readonly string[] | null;
  /** The files that know host keys, and the name of the host in them. */
  readonly knownHosts: { readonly name: string; readonly files: readonly string[] };
  /** True when the configuration sets ConnectTimeout, and ServerAliveInterval. */
  readonly limits: { readonly connecting: boolean; readonly silence: boolean };
  /** The other options that reach the host from another configuration. */
  readonly options: SshHost['options'];
}

export interface SshConfigQuery {
  readonly host: string;
  readonly port: number | null;
  readonly user: string | null;
}

export interface SshDefaults {
  readonly user: string;
  readonly userHome: string;
  readonly agent: string | null;
  /** For example `-F file`. */
  readonly sshArgs: readonly string[];
}

/** Short enough that an edited file takes effect soon. */
const cacheTtlMs = 60_000;

/** Runs `ssh -G` and caches the answer. Without an ssh program the defaults hold. */
export function createSshConfigReader(defaults: SshDefaults): (query: SshConfigQuery) => Promise<SshConfig> {
  const answers = new Map<string, { readonly at: number; readonly config: Promise<SshConfig> }>();
  const gate = createLimiter(4);
  async function ask(query: SshConfigQuery): Promise<SshConfig> {
    const result = await runProcess({
      argv: [
        'ssh',
        ...defaults.sshArgs,
        '-G',
        ...(query.port === null ? [] : ['-p', String(query.port)]),
        ...(query.user === null ? [] : ['-l', query.user]),
        query.host,
      ],
      timeoutMs: 5_000,
      maxOutputBytes: 200_000,
    });
    if (result.exitCode !== 0) return defaultSshConfig(query, defaults);
    return parseSshConfig(new TextDecoder().decode(result.stdout), query, defaults);
  }
  return (query) => {
    const key = `${query.user}@${query.host}:${query.port}`;
    const held = answers.get(key);
    if (held !== undefined && performance.now() - held.at < cacheTtlMs) return held.config;
    const config = gate(() => ask(query));
    answers.set(key, { at: performance.now(), config });
    return config;
  };
}

export function defaultSshConfig(query: SshConfigQuery, defaults: SshDefaults): SshConfig {
  return {
    host: query.host,
    port: query.port ?? 22,
    user: query.user ?? defaults.user,
    keyFiles: [],
    certificates: [],
    agent: defaults.agent,
    proxy: null,
    knownHosts: knownHostsOf(
      undefined,
      query.host,
      query.port ?? 22,
      ['known_hosts'].map((name) => absolute(name, defaults)),
    ),
    limits: { connecting: false, silence: false },
    options: [],
  };
}

export function parseSshConfig(text: string, query: SshConfigQuery, defaults: SshDefaults): SshConfig {
  const values = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const space = line.indexOf(' ');
    if (space < 0) continue;
    const key = line.slice(0, space).toLowerCase();
    values.set(key, [...(values.get(key) ?? []), line.slice(space + 1)]);
  }
  const first = (key: string): string | undefined => values.get(key)?.[0];
  const host = first('hostname') ?? query.host;
  const port = Number(first('port') ?? query.port ?? 22);
  const user = first('user') ?? query.user ?? defaults.user;
  // The tokens of ssh_config(5) that a path or a ProxyCommand may contain.
  const tokens: Readonly<Record<string, string>> = {
    '%': '%',
    h: host,
    n: query.host,
    p: String(port),
    r: user,
    u: defaults.user,
    d: defaults.userHome,
  };
  const expand = (value: string): string =>
    value.replaceAll(/%(.)/gu, (whole, letter: string) => tokens[letter] ?? whole);
  const path = (name: string): string => absolute(expand(name), defaults);
  const jump = first('proxyjump');
  const command = first('proxycommand');
  let proxy: readonly string[] | null = null;
  let proxyCommand: string | undefined;
  if (jump !== undefined && jump !== 'none') {
    proxy = jumpArgv(jump, host, port, [...defaults.sshArgs, '-o', 'BatchMode=yes']);
    // Not ProxyJump: ssh resolves its host in the configuration that has the option.
    proxyCommand = jumpArgv(jump, host, port, defaults.sshArgs).map(quote).join(' ');
  } else if (command !== undefined && command !== 'none') {
    proxyCommand = expand(command);
    proxy = ['/bin/sh', '-c', `exec ${proxyCommand}`];
  }
  const printed = (name: string) => {
    const value = first(name.toLowerCase());
    return value === undefined ? [] : [[name, value] as const];
  };
  return {
    host,
    port,
    user,
    keyFiles: (values.get('identityfile') ?? []).filter((name) => name !== 'none').map(path),
    certificates: (values.get('certificatefile') ?? []).filter((name) => name !== 'none').map(path),
    options: [
      ...['IdentitiesOnly', 'IdentityAgent', 'HostKeyAlias', 'UserKnownHostsFile', 'GlobalKnownHostsFile'].flatMap(
        printed,
      ),
      ...(proxyCommand === undefined ? [] : [['ProxyCommand', proxyCommand.replaceAll('%', '%%')] as const]),
    ],
    agent: agentOf(first('identityagent'), path, defaults.agent),
    proxy,
    knownHosts: knownHostsOf(
      first('hostkeyalias'),
      host,
      port,
      ['userknownhostsfile', 'globalknownhostsfile']
        .flatMap((name) => (first(name) ?? '').split(' '))
        .filter((file) => file !== '' && file !== 'none')
        .map(path),
    ),
    // Unset options are printed too, as `none` and as 0.
    limits: {
      connecting: (first('connecttimeout') ?? 'none') !== 'none',
      silence: (first('serveraliveinterval') ?? '0') !== '0',
    },
  };
}

function knownHostsOf(
  alias: string | undefined,
  host: string,
  port: number,
  files: readonly string[],
): SshConfig['knownHosts'] {
  return { name: alias ?? (port === 22 ? host : `[${host}]:${port}`), files };
}

function agentOf(value: string | undefined, path: (name: string) => string, fallback: string | null): string | null {
  if (value === undefined || value === 'SSH_AUTH_SOCK') return fallback;
  // A dollar sign and a variable's name: only SSH_AUTH_SOCK is passed to jobman.
  if (value.startsWith('$')) return value.includes('SSH_AUTH_SOCK') ? fallback : null;
  return value === 'none' ? null : path(value);
}

/** The last jump host opens the connection; the ones before it are its own jumps. */
function jumpArgv(jump: string, host: string, port: number, args: readonly string[]): readonly string[] {
  const hops = jump.split(',').map((hop) => hop.trim());
  const last = hops.pop() ?? '';
  return [
    'ssh',
    ...args,
    ...(hops.length === 0 ? [] : ['-J', hops.join(',')]),
    '-W',
    host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    last.startsWith('ssh://') ? last : `ssh://${last}`,
  ];
}

function absolute(path: string, defaults: SshDefaults): string {
  if (path.startsWith('~/')) return join(defaults.userHome, path.slice(2));
  return isAbsolute(path) ? path : join(defaults.userHome, '.ssh', path);
}

/** The cloud names hosts, and any other text could become an option of ssh or a new line of its file. */
export function isHostName(text: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.:%-]*$/u.test(text);
}
