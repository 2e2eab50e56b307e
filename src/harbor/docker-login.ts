// Reads the login of `docker login` (https://docs.docker.com/reference/cli/docker/login/#credential-stores) from
// Docker's configuration or a credential helper (https://github.com/docker/docker-credential-helpers).

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isFileMissing, messageOf } from '../app/errors.ts';
import { parseShape } from '../app/json.ts';
import { second } from '../core/model/time.ts';
import { runLoginProgram } from '../http/login-program.ts';
import type { Environment } from '../http/client.ts';

interface Login {
  readonly user: string;
  readonly password: string;
}

/** A login, or the reason why it cannot be read. Both are null if Docker has none. */
export interface LoginResult {
  readonly login: Login | null;
  readonly problem: string | null;
}

export interface DockerContext {
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

const noLogin: LoginResult = { login: null, problem: null };

/** Docker's login for a host (with its port). Never throws, because a registry may answer without a login. */
export async function dockerLogin(host: string, context: DockerContext): Promise<LoginResult> {
  const folder = context.env['DOCKER_CONFIG'] || join(context.userHome, '.docker');
  const file = join(folder, 'config.json');
  let config: DockerConfig;
  try {
    config = JSON.parse(readFileSync(file, 'utf8')) as DockerConfig;
  } catch (error) {
    return isFileMissing(error) ? noLogin : problem(`${file} cannot be read: ${messageOf(error)}`);
  }
  const auths = config.auths ?? {};
  const own = Object.keys(auths).find((key) => hostOf(key) === host);
  const helper = Object.entries(config.credHelpers ?? {}).find(([key]) => hostOf(key) === host)?.[1];
  const store = helper ?? config.credsStore;
  if (store !== undefined && store !== '') {
    const found = await runCredentialHelper(store, own ?? host, context.env);
    if (found.login !== null || found.problem !== null || own === undefined) return found;
  }
  if (own === undefined) return noLogin;
  const { auth, username, password } = auths[own] ?? {};
  if (auth !== undefined && auth !== '') {
    const pair = Buffer.from(auth, 'base64').toString('utf8').replaceAll('\0', '');
    const at = pair.indexOf(':');
    return at < 1
      ? problem(`the login for ${own} in ${file} is not a user with a password`)
      : { login: { user: pair.slice(0, at), password: pair.slice(at + 1) }, problem: null };
  }
  if (username !== undefined && password !== undefined) return { login: { user: username, password }, problem: null };
  return noLogin;
}

/** Docker also writes registries with a scheme and a path. */
function hostOf(key: string): string {
  return key.replace(/^https?:\/\//, '').replace(/\/.*$/, '');
}

/** A helper with a stored password needs less time. A helper that asks the user cannot: it has no terminal. */
const helperTimeout = 20 * second;

/** Runs `docker-credential-<name> get`, which reads the address and prints JSON. */
async function runCredentialHelper(name: string, address: string, env: DockerContext['env']): Promise<LoginResult> {
  const program = `docker-credential-${name}`;
  const { stdout, failure } = await runLoginProgram([program, 'get'], { env, input: address, timeout: helperTimeout });
  if (failure !== undefined) {
    // All credential helpers print this for an address without a login.
    if (/credentials not found/i.test(stdout)) return noLogin;
    const [firstLine = ''] = stdout.trim().split('\n');
    return problem(`the docker credential helper ${program} ${failure}${firstLine === '' ? '' : `: ${firstLine}`}`);
  }
  const answer = parseShape(stdout, { Username: 'string', Secret: 'string' });
  if (answer === undefined) return problem(`${program} printed no valid login`);
  const { Username, Secret } = answer;
  if (Username === undefined || Secret === undefined || Username === '') return noLogin;
  // An identity token, which Docker exchanges for another; Harbor's API does not accept it.
  if (Username === '<token>')
    return problem(`${program} has a token for ${address}, but Harbor needs a user with a password`);
  return { login: { user: Username, password: Secret }, problem: null };
}

function problem(text: string): LoginResult {
  return { login: null, problem: text };
}
