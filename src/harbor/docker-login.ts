// Docker login: the user and password that `docker login` has left for a registry, in Docker's own configuration or with a
// program that keeps passwords. The file: https://docs.docker.com/reference/cli/docker/login/#credential-stores; the
// programs: https://github.com/docker/docker-credential-helpers.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { second } from '../core/time.ts';
import { runLoginProgram } from '../http/login-program.ts';
import type { Environment } from '../http/client.ts';

interface Login {
  readonly user: string;
  readonly password: string;
}

/** A login, or why it cannot be read. Both are null if Docker has none. */
export interface LoginFound {
  readonly login: Login | null;
  readonly problem: string | null;
}

/** The surroundings that Docker looks at. */
export interface DockerPlace {
  readonly env: Environment;
  readonly userHome: string;
}

interface DockerConfig {
  readonly auths?: Readonly<
    Record<string, { readonly auth?: string; readonly username?: string; readonly password?: string }>
  >;
  readonly credsStore?: string;
  readonly credHelpers?: Readonly<Record<string, string>>;
}

const nobody: LoginFound = { login: null, problem: null };

/** Docker's login for that host (with its port). Never throws: a registry may answer without a login. */
export async function dockerLogin(host: string, place: DockerPlace): Promise<LoginFound> {
  const folder = place.env['DOCKER_CONFIG'] || join(place.userHome, '.docker');
  const file = join(folder, 'config.json');
  let config: DockerConfig;
  try {
    config = JSON.parse(readFileSync(file, 'utf8')) as DockerConfig;
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    return isAbsent ? nobody : problem(`${file} cannot be read: ${messageOf(error)}`);
  }
  const auths = config.auths ?? {};
  const own = Object.keys(auths).find((key) => hostOf(key) === host);
  const helper = Object.entries(config.credHelpers ?? {}).find(([key]) => hostOf(key) === host)?.[1];
  const store = helper ?? config.credsStore;
  if (store !== undefined && store !== '') {
    const found = await askHelper(store, own ?? host, place.env);
    if (found.login !== null || found.problem !== null || own === undefined) return found;
  }
  if (own === undefined) return nobody;
  const { auth, username, password } = auths[own] ?? {};
  if (auth !== undefined && auth !== '') {
    const pair = Buffer.from(auth, 'base64').toString('utf8').replaceAll('\0', '');
    const at = pair.indexOf(':');
    return at < 1
      ? problem(`the login for ${own} in ${file} is no user with a password`)
      : { login: { user: pair.slice(0, at), password: pair.slice(at + 1) }, problem: null };
  }
  if (username !== undefined && password !== undefined) return { login: { user: username, password }, problem: null };
  return nobody;
}

/** Docker writes registries with a scheme and a path as well. */
function hostOf(key: string): string {
  return key.replace(/^https?:\/\//, '').replace(/\/.*$/, '');
}

/** Longer than that no program takes that has a password at hand; one that asks somebody has nobody to ask here. */
const patience = 20 * second;

/** Runs `docker-credential-<name> get`, which reads the address and prints JSON. */
async function askHelper(name: string, address: string, env: DockerPlace['env']): Promise<LoginFound> {
  const program = `docker-credential-${name}`;
  const { stdout, failed } = await runLoginProgram([program, 'get'], { env, input: address, within: patience });
  if (failed !== undefined) {
    // All credential helpers print this for an address without a login.
    if (/credentials not found/i.test(stdout)) return nobody;
    const [said = ''] = stdout.trim().split('\n');
    return problem(`${program}, which your docker login names, ${failed}${said === '' ? '' : `: ${said}`}`);
  }
  try {
    const { Username, Secret } = JSON.parse(stdout) as { readonly Username?: unknown; readonly Secret?: unknown };
    if (typeof Username !== 'string' || typeof Secret !== 'string' || Username === '') return nobody;
    // A token of an identity provider, which Docker exchanges for another; Harbor's API takes none.
    if (Username === '<token>')
      return problem(`${program} has a token for ${address}, and Harbor takes a user with a password`);
    return { login: { user: Username, password: Secret }, problem: null };
  } catch {
    return problem(`${program} printed something that is no login`);
  }
}

function problem(text: string): LoginFound {
  return { login: null, problem: text };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
