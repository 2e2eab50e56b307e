/** The kubeconfig: the chosen cluster, the login, and the errors of invalid files. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { JobmanError } from '../../../src/app/errors.ts';
import {
  hasClusterConfig,
  readKubeContext,
  type KubeconfigSources,
  type KubeUser,
} from '../../../src/backends/kubernetes/kubeconfig.ts';
import { createLogin } from '../../../src/backends/kubernetes/login.ts';
import { openWorld } from '../../support/world.ts';
import { now, openServer, status } from './support/server.ts';

const config = (context: string, more = ''): string => `
apiVersion: v1
kind: Config
current-context: ${context}
contexts:
- {name: ${context}, context: {cluster: c-${context}, user: u-${context}${more}}}
clusters:
- {name: c-${context}, cluster: {server: "https://${context}:6443", certificate-authority: pki/ca.crt}}
users:
- {name: u-${context}, user: {token: t-${context}}}
`;

function sourcesIn(folder: string, different: Partial<KubeconfigSources> = {}): KubeconfigSources {
  return {
    setting: { type: 'default', file: null },
    env: {},
    userHome: folder,
    cwd: folder,
    serviceAccountFolder: join(folder, 'account'),
    ...different,
  };
}

async function refused(work: Promise<unknown>): Promise<readonly [code: number, text: string]> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof JobmanError, String(error));
    return [error.code, [error.message, ...error.lines].join('\n')];
  }
  return assert.fail('it was read');
}

suite('a kubeconfig', () => {
  test('is that of KUBECONFIG, otherwise that in the home folder; relative paths start at its folder', async (t) => {
    const { folder } = openWorld(t);
    mkdirSync(join(folder, '.kube'));
    writeFileSync(join(folder, '.kube/config'), config('home', ', namespace: vision'));
    writeFileSync(join(folder, 'named'), config('named'));
    const home = await readKubeContext(sourcesIn(folder), {});
    assert.deepEqual([home.name, home.namespace, home.cluster.server], ['home', 'vision', 'https://home:6443']);
    assert.equal(home.cluster['certificate-authority'], join(folder, '.kube/pki/ca.crt'));
    const named = await readKubeContext(sourcesIn(folder, { env: { KUBECONFIG: 'named' } }), {});
    assert.deepEqual([named.name, named.namespace, named.user.token], ['named', 'default', 't-named']);
    const file = { type: 'file', file: join(folder, 'named') } as const;
    assert.equal((await readKubeContext(sourcesIn(folder, { setting: file }), { namespace: 'x' })).namespace, 'x');
  });

  test('of several files: the first definition of a name wins, and a missing file is skipped', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'a'), config('one'));
    writeFileSync(join(folder, 'b'), config('one').replaceAll('t-one', 'later') + '');
    writeFileSync(join(folder, 'c'), config('two'));
    const sources = sourcesIn(folder, { env: { KUBECONFIG: 'none:a:b:c' } });
    assert.equal((await readKubeContext(sources, {})).user.token, 't-one');
    assert.equal((await readKubeContext(sources, { context: 'two' })).user.token, 't-two');
    const [code, text] = await refused(readKubeContext(sources, { context: 'twoo' }));
    assert.equal(code, 3);
    assert.match(text, /has no context twoo\.\nDid you mean two\?/);
  });

  test('that is missing, invalid or incomplete is refused', async (t) => {
    const { folder } = openWorld(t);
    assert.equal(hasClusterConfig(sourcesIn(folder)), false);
    const nothing = await refused(readKubeContext(sourcesIn(folder), {}));
    assert.equal(nothing[0], 5);
    assert.match(nothing[1], /the kubeconfig .*\.kube\/config does not exist/);
    for (const [text, code, expected] of [
      ['a: [', 2, /is not valid YAML/],
      ['', 5, /is empty/],
      ['kind: Config', 5, /has no current context/],
      [config('x').replace('cluster: c-x', 'cluster: other'), 5, /refers to the cluster other, which has no server/],
      [config('x').replace('https://x:6443', 'ftp://x'), 5, /must be a URL such as https:/],
    ] as const) {
      writeFileSync(join(folder, 'k'), text);
      const found = await refused(readKubeContext(sourcesIn(folder, { env: { KUBECONFIG: 'k' } }), {}));
      assert.equal(found[0], code, text);
      assert.match(found[1], expected);
    }
  });

  test('of a pod is its service account', async (t) => {
    const { folder } = openWorld(t);
    mkdirSync(join(folder, 'account'));
    writeFileSync(join(folder, 'account/token'), 'first\n');
    writeFileSync(join(folder, 'account/namespace'), 'vision\n');
    const sources = sourcesIn(folder, { env: { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' } });
    assert.equal(hasClusterConfig(sources), true);
    const context = await readKubeContext(sources, {});
    assert.deepEqual(
      [context.name, context.namespace, context.cluster.server],
      ['in-cluster', 'vision', 'https://[fd00::1]:443'],
    );
    const login = createLogin(context, { env: {}, now: () => now });
    assert.equal((await login.credentials()).headers['authorization'], 'Bearer first');
    // Kubernetes renews it there.
    writeFileSync(join(folder, 'account/token'), 'second\n');
    assert.equal((await login.credentials()).headers['authorization'], 'Bearer second');
  });
});

suite('a login', () => {
  const loginOf = (user: KubeUser, clock = () => now) =>
    createLogin(
      { name: 'lab', namespace: 'x', cluster: { server: 'https://lab' }, user, userName: 'ada', source: 'a test' },
      { env: { PATH: '/usr/bin:/bin' }, now: clock },
    );

  test('with a name and a password, and with impersonation', async () => {
    const { headers } = await loginOf({
      username: 'ada',
      password: 'p',
      as: 'grace',
      'as-groups': ['g', 'h'],
    }).credentials();
    assert.deepEqual(headers, {
      authorization: `Basic ${Buffer.from('ada:p').toString('base64')}`,
      'impersonate-user': 'grace',
      'impersonate-group': ['g', 'h'],
    });
    assert.equal(loginOf({ token: 'x', as: 'grace' }).user, 'grace');
  });

  test('is called as its token says', () => {
    const token = ['{}', '{"sub":"system:serviceaccount:vision:ada"}', 'sig']
      .map((part) => Buffer.from(part).toString('base64url'))
      .join('.');
    assert.equal(loginOf({ token }).user, 'system:serviceaccount:vision:ada');
    assert.equal(loginOf({ token: 'opaque' }).user, 'ada');
  });

  test('knows from its token that it has ended', () => {
    const token = (claims: object): string =>
      ['{}', JSON.stringify(claims), 'sig'].map((part) => Buffer.from(part).toString('base64url')).join('.');
    const until = Math.floor(now / 1_000);
    assert.match(loginOf({ token: token({ exp: until - 60 }) }).expiredOn() ?? '', /^\d+ [A-Z][a-z]{2} [\d:]{8} UTC$/);
    const ended = Date.UTC(2020, 0, 2, 3, 4, 5) / 1_000;
    assert.equal(loginOf({ token: token({ exp: ended }) }).expiredOn(), '2 Jan 2020 03:04:05 UTC');
    for (const user of [{ token: token({ exp: until + 60 }) }, { token: token({}) }, { token: 'opaque' }, {}]) {
      assert.equal(loginOf(user).expiredOn(), null, JSON.stringify(user));
    }
    assert.equal(
      loginOf({ 'client-certificate-data': 'bm9uZQ==' }).expiredOn(),
      null,
      'what cannot be read says nothing',
    );
  });

  test('by a program is kept as long as it holds, and made again when it was refused', async (t) => {
    const { folder } = openWorld(t);
    const program = join(folder, 'login');
    const count = join(folder, 'count');
    writeFileSync(
      program,
      `#!/bin/sh
echo x >> ${count}
printf '{"status":{"token":"%s-%s","expirationTimestamp":"2026-11-22T02:00:00Z"}}' "$WHO" "$(wc -l < ${count} | tr -d ' ')"
`,
    );
    chmodSync(program, 0o700);
    let time = now;
    const login = loginOf({ exec: { command: program, env: [{ name: 'WHO', value: 'ada' }] } }, () => time);
    const token = async (): Promise<unknown> => (await login.credentials()).headers['authorization'];
    assert.equal(await token(), 'Bearer ada-1');
    assert.equal(await token(), 'Bearer ada-1');
    assert.equal(login.invalidate(), true);
    assert.equal(await token(), 'Bearer ada-2');
    time += 3_600_000;
    assert.equal(await token(), 'Bearer ada-3');

    const server = await openServer(t, ({ headers }) =>
      headers['authorization'] === 'Bearer ada-4'
        ? status(401, 'Unauthorized', 'old')
        : { json: { metadata: { name: 'a' } } },
    );
    const cluster = server.cluster({ user: { exec: { command: program, env: [{ name: 'WHO', value: 'ada' }] } } });
    assert.equal((await cluster.job('a'))?.name, 'a');
    assert.deepEqual(
      server.requests.map(({ headers }) => headers['authorization']),
      ['Bearer ada-4', 'Bearer ada-5'],
    );
  });

  test('by a program uses no empty token or key', async (t) => {
    const { folder } = openWorld(t);
    const program = join(folder, 'login');
    const print = (status: object): void => {
      writeFileSync(program, `#!/bin/sh\nprintf '%s' '${JSON.stringify({ status })}'\n`, { mode: 0o700 });
    };
    print({ token: '', clientCertificateData: 'cert', clientKeyData: 'key' });
    const { headers } = await loginOf({ exec: { command: program } }).credentials();
    assert.equal(headers['authorization'], undefined);
    print({ token: '', clientCertificateData: '' });
    await assert.rejects(loginOf({ exec: { command: program } }).credentials(), /neither a token nor a certificate/);
  });

  test('through an identity provider uses its id token until it expires, then gets another with the refresh token', async (t) => {
    let time = now;
    const idToken = (name: string, seconds: number): string => {
      const claims = Buffer.from(JSON.stringify({ sub: name, exp: time / 1000 + seconds })).toString('base64url');
      return `e30.${claims}.x`;
    };
    const asked: string[] = [];
    const server = await openServer(t, ({ method, path, body, headers }) => {
      if (method === 'GET') return { json: { token_endpoint: `${server.url}/token` } };
      asked.push(`${path} ${body} ${String(headers['authorization'])}`);
      if (asked.length > 2) return { status: 400, json: { error: 'invalid_grant', error_description: 'log in again' } };
      return { json: { id_token: idToken(`renewed-${asked.length}`, 60), refresh_token: `next-${asked.length}` } };
    });
    const config = {
      'idp-issuer-url': `${server.url}/`,
      'client-id': 'jobs',
      'client-secret': 's:1',
      'refresh-token': 'first',
      'id-token': idToken('given', 60),
    };
    const login = loginOf({ 'auth-provider': { name: 'oidc', config } }, () => time);
    const subject = async (): Promise<unknown> => {
      const { authorization = '' } = (await login.credentials()).headers;
      return (
        JSON.parse(Buffer.from(String(authorization).split('.')[1] ?? '', 'base64url').toString()) as { sub: unknown }
      ).sub;
    };
    assert.deepEqual([await subject(), await subject(), asked.length], ['given', 'given', 0]);
    time += 55_000;
    assert.deepEqual([await subject(), await subject()], ['renewed-1', 'renewed-1']);
    const basic = `Basic ${Buffer.from('jobs:s%3A1').toString('base64')}`;
    assert.deepEqual(asked, [`/token grant_type=refresh_token&refresh_token=first ${basic}`]);
    assert.equal(login.invalidate(), true);
    assert.equal(await subject(), 'renewed-2');
    assert.match(String(asked[1]), /refresh_token=next-1 /);
    login.invalidate();
    const [code, text] = await refused(login.credentials());
    assert.equal(code, 5);
    assert.match(
      text,
      /OpenID Connect login of the context lab failed\.\n.*refused the request \(HTTP 400, invalid_grant, log in again\)/,
    );
    const away = { ...config, 'idp-issuer-url': 'http://far.example', 'id-token': '' };
    const plain = loginOf({ 'auth-provider': { name: 'oidc', config: away } });
    assert.match((await refused(plain.credentials()))[1], /is not an https URL/);
    const gone = loginOf({ 'auth-provider': { name: 'azure' } });
    assert.match(
      (await refused(gone.credentials()))[1],
      /uses the auth provider azure, which Kubernetes no longer supports/,
    );
  });

  test('by a program that fails shows the error output of the program', async (t) => {
    const { folder } = openWorld(t);
    const program = join(folder, 'login');
    writeFileSync(program, '#!/bin/sh\necho "please log in first" >&2\nexit 3\n');
    chmodSync(program, 0o700);
    const [code, text] = await refused(loginOf({ exec: { command: program } }).credentials());
    assert.equal(code, 5);
    assert.match(text, /exited with code 3\.\nplease log in first/);
    const absent = await refused(
      loginOf({ exec: { command: '/nowhere/login', installHint: 'get it from us' } }).credentials(),
    );
    assert.match(absent[1], /was not found\.\nget it from us/);
    writeFileSync(program, '#!/bin/sh\necho hello\n');
    assert.match(
      (await refused(loginOf({ exec: { command: program } }).credentials()))[1],
      /did not print a credential/,
    );
  });
});
