/** Logins of people at a real identity provider, as the browser and the CLI see them. */
import assert from 'node:assert/strict';
import { createHash, sign } from 'node:crypto';
import { suite, test, type TestContext } from 'node:test';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { renderPage } from '../../src/app/login-page.ts';
import type { OidcSettings } from '../../src/app/oidc.ts';
import { createLogins, randomSecret } from '../../src/app/oidc-logins.ts';
import type { Client } from '../../src/app/client.ts';
import { createAuthenticate, createToken, revokeToken } from '../../src/app/tokens.ts';
import { addUser, changeUser } from '../../src/app/users.ts';
import { minute } from '../../src/core/model/time.ts';
import { createServerLogin } from '../../src/http-client/login.ts';
import { createIdentityProvider } from '../../src/oidc/provider.ts';
import { openStore } from '../../src/store/store.ts';
import { send } from '../server/support/send.ts';
import { openServer } from '../server/support/server.ts';
import { aMember } from '../support/builders.ts';
import { Browser, type Page } from './support/browser.ts';
import { clientSecret, startProvider, type TestProvider } from './support/provider.ts';

const root = aMember('root', { role: 'admin', login: 'root' });
/** Of the CLI. The browsers of this file stop there. */
const port = 65_000;

interface Given {
  readonly settings?: Partial<OidcSettings>;
  readonly secret?: string;
  readonly provider?: TestProvider;
  readonly url?: string;
}

/** A server with that provider, a user ada with an account, and the machine of a person. */
async function openLogin(t: TestContext, given: Given = {}) {
  const provider = given.provider ?? (await startProvider(t));
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  t.after(() => store.close());
  const clock = { ahead: 0 };
  const now = () => Date.now() + clock.ahead;
  const { access } = store;
  await addUser({ access, now }, root, { name: 'ada', account: 'Ada@example.com' });
  provider.people.set('ada', { email: 'ada@example.com', email_verified: true, preferred_username: 'ada.l' });
  const settings: OidcSettings = { issuer: provider.issuer, client_id: 'jobman', ...given.settings };
  const secret = given.secret ?? clientSecret;
  const clientSecrets = { browser: secret, device: secret };
  const identity = createIdentityProvider({ settings, clientSecrets, env: {}, now });
  const warnings: string[] = [];
  const logins = createLogins({
    access,
    provider: async () => identity,
    settings,
    now,
    warn: (line) => void warnings.push(line),
  });
  const routes = { logins: async () => logins, url: async () => given.url ?? null };
  const { server } = await openServer(t, { login: routes });
  const login = createServerLogin({ server: server.url, env: {}, replaced: null });
  t.after(() => login.close());
  const [verifier, state] = [randomSecret(), randomSecret()];
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const page = `${server.url}/login?${new URLSearchParams({ port: String(port), state, challenge }).toString()}`;
  const newBrowser = () => {
    const browser = new Browser();
    browser.stopAt = (url) => url.port === String(port);
    return browser;
  };
  const atProvider = async (browser: Browser) => browser.click(await browser.open(page), 'Continue');
  /** The one-time code of the address of the CLI. */
  const codeOf = (answered: Page): string => {
    const url = new URL(answered.url);
    assert.equal(url.port, String(port), `${answered.url} ${answered.text}`);
    assert.equal(url.searchParams.get('state'), state);
    return url.searchParams.get('code') ?? '';
  };
  const byBrowser = async (name = 'ada', browser = newBrowser()): Promise<string> =>
    codeOf(await browser.logIn(await atProvider(browser), name));
  const redeem = (code: string) => login.redeem(code, verifier, 'laptop');
  return {
    provider,
    access,
    clock,
    now,
    server,
    login,
    routes,
    verifier,
    state,
    page,
    newBrowser,
    atProvider,
    codeOf,
    byBrowser,
    redeem,
    warnings,
    logIn: async (name = 'ada') => redeem(await byBrowser(name)),
    parts: { access, now },
    audit: async () => (await access.audit({ actors: null, limit: 100 })).filter((row) => row.operation === 'log-in'),
    tokens: () => access.tokens(null),
  };
}

type Login = Awaited<ReturnType<typeof openLogin>>;

const refused =
  (message: RegExp, code: number = exitCode.conflict) =>
  (error: unknown) => {
    assert.ok(error instanceof JobmanError, String(error));
    assert.match(error.message, message);
    assert.equal(error.code, code);
    return true;
  };

suite('a person', () => {
  for (const claimsInToken of [false, true])
    test(`logs in with a browser, from claims in ${claimsInToken ? 'the ID token' : 'the user info'}`, async (t) => {
      const given = await openLogin(t, { provider: await startProvider(t, { claimsInToken }) });
      assert.deepEqual(await given.login.methods(), { oidc: { issuer: given.provider.issuer } });
      const { token, view } = await given.logIn();
      assert.deepEqual([view.user, view.name, view.role], ['ada', 'laptop', 'member']);
      assert.equal(Math.round((view.expiresAt - given.now()) / (24 * 60 * minute)), 30);
      assert.equal((await createAuthenticate(given.parts)(token))?.user, 'ada');
      assert.equal(given.provider.requests.includes('/me'), !claimsInToken);
      assert.equal((await given.logIn()).view.name, 'laptop-2');
      const [row] = await given.audit();
      assert.deepEqual(
        [row?.actor, row?.outcome, row?.detail['method'], row?.detail['account'], row?.detail['subject']],
        ['ada', 'allowed', 'browser', 'ada@example.com', 'ada'],
      );
    });

  test('logs in to the dashboard, whose token ends at the log-out', async (t) => {
    const given = await openLogin(t);
    const { server } = await openServer(t, {
      login: given.routes,
      authenticate: createAuthenticate(given.parts),
      clientOf: (actor) =>
        ({ revokeToken: (ref: string) => revokeToken(given.parts, actor, ref) }) as unknown as Client,
    });
    const browser = new Browser();
    const start = (page: string) =>
      browser.open(`${server.url}/login/page?${new URLSearchParams({ page }).toString()}`);
    const opened = await browser.logIn(await start('/jobs?phase=failed'), 'ada');
    assert.equal(opened.url, `${server.url}/jobs?phase=failed`);
    const tokens = async () => (await given.tokens()).map(({ name, revokedAt }) => [name, revokedAt !== null]);
    assert.deepEqual(await tokens(), [['browser', false]]);

    // A login in a browser that has a session replaces its token.
    const again = browser.open(`${server.url}/login/page`, undefined, 'same-origin');
    assert.equal((await browser.logIn(await again, 'ada')).url, `${server.url}/jobs`);
    assert.deepEqual(await tokens(), [
      ['browser', true],
      ['browser', false],
    ]);

    const session = browser.cookies.find(({ name }) => name.startsWith('jobman-session-'));
    const headers = { cookie: `${session?.name}=${session?.value}`, 'jobman-version': '0' };
    // So does a login with another token.
    const { token } = await createToken(given.parts, aMember('ada'), { name: 'own' });
    const entered = { method: 'POST', headers, body: JSON.stringify({ token }) };
    assert.equal((await send(server.url, '/session', entered)).status, 204);
    const leave = () => send(server.url, '/session', { method: 'DELETE', headers });
    assert.equal((await leave()).status, 204);
    assert.deepEqual(await tokens(), [
      ['browser', true],
      ['browser', true],
      ['own', false],
    ]);
    assert.equal((await leave()).status, 204, 'again');

    // No link may send the browser to another site after the login.
    for (const page of ['https://evil.example', '//evil.example', '/\\evil.example', 'jobs'])
      assert.equal((await start(page)).status, 400, page);
    given.provider.people.set('eve', { email: 'eve@example.com', email_verified: true });
    const eve = new Browser();
    const refusal = await eve.logIn(await eve.open(`${server.url}/login/page`), 'eve');
    assert.equal(refusal.status, 403);
  });

  test('who logs in again at the same machine has one token of it, and keeps those of other machines and programs', async (t) => {
    const given = await openLogin(t);
    const valid = async () =>
      (await given.tokens()).filter(({ revokedAt }) => revokedAt === null).map(({ name }) => name);
    const withStored = (token: string | null) => {
      const login = createServerLogin({ server: given.server.url, env: {}, replaced: token });
      t.after(() => login.close());
      return login;
    };
    const { token } = await given.logIn();
    const other = await given.logIn();
    assert.deepEqual(await valid(), ['laptop', 'laptop-2']);
    const again = await withStored(token).redeem(await given.byBrowser(), given.verifier, 'laptop');
    assert.deepEqual([again.view.name, await valid()], ['laptop', ['laptop-2', 'laptop']]);
    assert.equal(await createAuthenticate(given.parts)(token), null);
    // Tokens that do not count, or of another machine or program, stay.
    const program = await createToken(given.parts, aMember('ada'), { name: 'ci' });
    for (const stored of [token, 'wrong', program.token, (await given.logIn()).token, null])
      await withStored(stored).redeem(await given.byBrowser(), given.verifier, 'node');
    assert.deepEqual(await valid(), [
      'laptop-2',
      'laptop',
      'ci',
      'laptop-3',
      'node',
      'node-2',
      'node-3',
      'node-4',
      'node-5',
    ]);
    assert.notEqual(await createAuthenticate(given.parts)(other.token), null);
    // A refused login takes no token away.
    given.provider.people.set('eve', { email: 'eve@example.com', email_verified: true });
    const refusal = withStored(again.token).redeem(await given.byBrowser('eve'), given.verifier, 'laptop');
    await assert.rejects(refusal, refused(/^No user of this server has the account eve/));
    assert.notEqual(await createAuthenticate(given.parts)(again.token), null);
  });

  test('stays the same user after the first login, whatever the address is', async (t) => {
    const given = await openLogin(t);
    await given.logIn();
    const { people } = given.provider;
    people.set('ada', { email: 'lovelace@example.com', email_verified: true });
    assert.equal((await given.logIn()).view.user, 'ada');
    // The provider gives the address to another person.
    people.set('new', { email: 'ada@example.com', email_verified: true });
    await assert.rejects(given.logIn('new'), refused(/^Another person has already logged in as ada /));
    const relink = { kind: 'account', account: 'ada@example.com' } as const;
    assert.equal((await changeUser(given.parts, root, 'ada', relink)).changed, true);
    assert.equal((await given.logIn('new')).view.user, 'ada');
    await assert.rejects(given.logIn('ada'), refused(/^No user of this server has the account lovelace@/));
    const rows = await given.audit();
    assert.deepEqual(
      rows.map(({ outcome, actor, object }) => [outcome, actor, object?.id]),
      [
        ['denied', '-', undefined],
        ['allowed', 'ada', 'ada'],
        ['denied', 'ada', 'ada'],
        ['allowed', 'ada', 'ada'],
        ['allowed', 'ada', 'ada'],
      ],
    );
  });

  test('is refused if unknown, unverified or disabled, and nothing is changed', async (t) => {
    const given = await openLogin(t);
    const { people } = given.provider;
    people.set('eve', { email: 'eve@example.com', email_verified: true });
    people.set('mallory', { email: 'ada@example.com', email_verified: false });
    people.set('silent', {});
    const before = await given.access.users();
    await assert.rejects(given.logIn('eve'), refused(/^No user of this server has the account eve@example\.com\.$/));
    await assert.rejects(given.logIn('mallory'), refused(/has not verified the e-mail address ada@example\.com\.$/));
    await assert.rejects(given.logIn('silent'), refused(/sent no claim email, by which jobman identifies users/));
    await changeUser(given.parts, root, 'ada', { kind: 'disable' });
    await assert.rejects(given.logIn('ada'), refused(/^The user ada is disabled\.$/));
    await changeUser(given.parts, root, 'ada', { kind: 'enable' });
    assert.deepEqual([await given.access.users(), await given.tokens()], [before, []]);
    assert.equal((await given.audit()).filter(({ outcome }) => outcome === 'denied').length, 4);
  });

  test('of an allowed domain becomes a user at the first login, if the settings say so', async (t) => {
    const settings = { new_users: 'viewer', allowed_domains: ['example.com'] } as const;
    const given = await openLogin(t, { settings });
    const { people } = given.provider;
    people.set('grace', { email: 'Grace@example.com', email_verified: true });
    people.set('other', { email: 'grace@example.org', email_verified: true });
    people.set('similar', { email: 'ADA@example.com', email_verified: true });
    const { view } = await given.logIn('grace');
    assert.deepEqual([view.user, view.role], ['grace', 'viewer']);
    assert.equal((await given.logIn('grace')).view.user, 'grace');
    await assert.rejects(given.logIn('other'), refused(/^No user of this server has the account grace@example\.org/));
    await changeUser(given.parts, root, 'ada', { kind: 'account', account: null });
    await assert.rejects(given.logIn('similar'), refused(/its name is too similar to the user ada\.$/));
  });

  for (const claimsInToken of [false, true])
    test(`gets a role from groups in ${claimsInToken ? 'the ID token' : 'the user info'} at each login`, async (t) => {
      const given = await openLogin(t, {
        provider: await startProvider(t, { claimsInToken }),
        settings: { roles: { lab: 'member', '/jobman admins': 'admin', guests: 'viewer' } },
      });
      const { people } = given.provider;
      const inGroups = (name: string, groups: unknown) =>
        people.set(name, { email: `${name}@example.com`, email_verified: true, groups });
      const roleAfter = async (name: string, groups: unknown): Promise<string> => {
        inGroups(name, groups);
        return (await given.logIn(name)).view.role;
      };
      // Linked by an admin, who has chosen the role.
      assert.equal(await roleAfter('ada', undefined), 'member');
      assert.equal(await roleAfter('ada', ['other', 'Lab', 7, null]), 'member');
      assert.equal(await roleAfter('ada', ['guests', '/jobman admins', 'lab']), 'admin');
      const [promoted] = await given.audit();
      assert.deepEqual([promoted?.role, promoted?.detail['roleBefore']], ['admin', 'member']);
      // The last admin stays one.
      assert.equal(await roleAfter('ada', ['lab']), 'admin');
      assert.equal((await given.audit())[0]?.detail['lastAdmin'], true);
      // In a group, a new person needs no link.
      assert.equal(await roleAfter('grace', '/jobman admins'), 'admin');
      const { token } = await given.logIn('ada');
      assert.equal(await roleAfter('ada', ['guests']), 'viewer');
      assert.equal((await createAuthenticate(given.parts)(token))?.role, 'viewer', 'also with an older token');
      assert.equal(await roleAfter('ada', ['lab']), 'member');
      // Without a group the role that groups gave is gone, and one that an admin gave stays.
      assert.equal(await roleAfter('ada', []), 'viewer');
      await changeUser(given.parts, root, 'ada', { kind: 'role', role: 'member' });
      assert.equal(await roleAfter('ada', []), 'member');
      inGroups('eve', ['other']);
      await assert.rejects(given.logIn('eve'), refused(/^No user of this server has the account eve@example\.com/));
    });

  test('gets no higher role by leaving a group', async (t) => {
    const settings = { roles: { guests: 'viewer' }, new_users: 'member', allowed_domains: ['example.com'] } as const;
    const given = await openLogin(t, { settings });
    const inGroups = (groups: readonly string[]) =>
      given.provider.people.set('grace', { email: 'grace@example.org', email_verified: true, groups });
    inGroups(['guests']);
    assert.equal((await given.logIn('grace')).view.role, 'viewer');
    inGroups([]);
    assert.equal((await given.logIn('grace')).view.role, 'viewer');
  });

  test('may be known by another claim', async (t) => {
    const given = await openLogin(t, { settings: { user_claim: 'preferred_username' } });
    await assert.rejects(given.logIn(), refused(/has the account ada\.l\.$/));
    await changeUser(given.parts, root, 'ada', { kind: 'account', account: 'ada.l' });
    assert.equal((await given.logIn()).view.user, 'ada');
  });
});

suite('a step of a login', () => {
  test('counts once, in the browser that began, and for the CLI that began', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    const code = await given.byBrowser('ada', browser);
    const callback = browser.visited.find((url) => url.includes('/login/callback')) ?? '';
    for (const other of [browser, given.newBrowser()]) {
      const again = await other.open(callback);
      assert.deepEqual(
        [again.status, /The login failed The server does not know this login/.test(again.text)],
        [403, true],
      );
    }
    await assert.rejects(given.login.redeem(code, randomSecret(), 'laptop'), refused(/does not know this code/));
    // The wrong verifier has used it up.
    await assert.rejects(given.redeem(code), refused(/does not know this code/));
    const next = await given.byBrowser();
    await given.redeem(next);
    await assert.rejects(given.redeem(next), refused(/does not know this code/));
    assert.equal((await given.tokens()).length, 1);
  });

  test('in another browser does not end the login in the first one', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    browser.stopAt = (url) => url.pathname === '/login/callback';
    const { url } = await browser.logIn(await given.atProvider(browser), 'ada');
    assert.equal((await given.newBrowser().open(url)).status, 403);
    browser.stopAt = given.newBrowser().stopAt;
    await given.redeem(given.codeOf(await browser.open(url)));
  });

  test('has an end', async (t) => {
    const given = await openLogin(t);
    const code = await given.byBrowser();
    given.clock.ahead += 2 * minute;
    await assert.rejects(given.redeem(code), refused(/already used, or has expired/));
    const browser = given.newBrowser();
    const page = await given.atProvider(browser);
    given.clock.ahead += 11 * minute;
    assert.match((await browser.logIn(page, 'ada')).text, /took longer than 10 minutes/);
  });

  test('needs the page before it', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    const { html } = await browser.open(given.page);
    const [, link = ''] = /href="([^"]*)"/.exec(html) ?? [];
    const start = new URL(link.replaceAll('&#38;', '&'), given.page);
    const forged = new URL(start);
    forged.searchParams.set('challenge', randomSecret());
    for (const [visitor, url] of [
      [given.newBrowser(), start],
      [browser, forged],
    ] as const)
      assert.match((await visitor.open(url.href)).text, /was not opened with the link Continue/);
    for (const wrong of [
      '',
      '?port=80',
      given.page.replace(/port=\d+/, 'port=22'),
      given.page.replace(/state=./, 'state='),
    ])
      assert.equal((await browser.open(new URL(wrong, `${given.server.url}/login`).href)).status, 400);
    for (const body of ['', '[]', '{"code":1}', '{"code":"a","verifier":"b"}']) {
      const { status } = await send(given.server.url, '/login/token', { method: 'POST', headers: {}, body });
      assert.equal(status, 400, body);
    }
  });

  test('may reach another server of the same database', async (t) => {
    const given = await openLogin(t);
    const other = await openServer(t, { login: given.routes });
    const elsewhere = (url: string) => url.replace(given.server.url, other.server.url);
    const browser = given.newBrowser();
    browser.stopAt = (url) => url.pathname === '/login/callback';
    const { url } = await browser.logIn(await given.atProvider(browser), 'ada');
    browser.stopAt = given.newBrowser().stopAt;
    // The provider sends the browser to the one address of both.
    const code = given.codeOf(await browser.open(elsewhere(url)));
    assert.equal((await given.redeem(code)).view.user, 'ada');
  });
});

suite('a page', () => {
  test('behind a trusted proxy has the address and the cookie of the proxy', async (t) => {
    const given = await openLogin(t);
    const { server } = await openServer(t, { login: given.routes, trustedProxies: ['127.0.0.1'] });
    const headers = { 'x-forwarded-proto': 'https', host: 'jobman.example' };
    const answer = await send(server.url, given.page.slice(given.server.url.length), { headers });
    assert.match(String(answer.headers['set-cookie']), /^__Host-jobman-login=[^]*; Secure/);
    assert.match(answer.text, /rights on jobman\.example\./);
  });

  test('has no script, no frame, and a cookie that only this server reads', async (t) => {
    for (const [url, cookie] of [
      [undefined, /^jobman-login=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/],
      [
        'https://jobman.example',
        /^__Host-jobman-login=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
      ],
    ] as const) {
      const given = await openLogin(t, url === undefined ? {} : { url });
      const { headers, html } = await given.newBrowser().open(given.page);
      assert.match(headers.getSetCookie().join(), cookie);
      assert.match(
        headers.get('content-security-policy') ?? '',
        /^default-src 'none'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
      );
      assert.deepEqual(
        ['x-frame-options', 'referrer-policy', 'cache-control'].map((name) => headers.get(name)),
        ['DENY', 'no-referrer', 'no-store'],
      );
      assert.doesNotMatch(html, /<script| on\w+=/);
    }
  });

  test('and the terminal show a text of the provider without its markup and control sequences', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    browser.stopAt = (url) => url.pathname === '/login/callback';
    const { url } = await given.atProvider(browser).then((page) => browser.logIn(page, 'ada'));
    const callback = new URL(url);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', 'odd\u001b[2J<b>');
    callback.searchParams.set('error_description', '<script>alert(1)</script>\u001b]0;title\u0007\u202e "\'&');
    browser.stopAt = given.newBrowser().stopAt;
    const code = given.codeOf(await browser.open(callback.href));
    await assert.rejects(given.redeem(code), (error: JobmanError) => {
      assert.match(error.message, /returned the error odd \[2J<b>: <script>alert\(1\)<\/script> \]0;title "'&\.$/);
      assert.doesNotMatch(renderPage({ title: 'a', lines: [error.message] }), /<script|<b>/);
      return true;
    });
  });
});

/** A login in a browser, to its end. */
const whole = (given: Login) => given.logIn();

suite('a provider that', () => {
  test('does not answer is named in the terminal and on the page', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    const page = await given.atProvider(browser);
    browser.stopAt = (url) => url.pathname === '/login/callback';
    const { url } = await browser.logIn(page, 'ada');
    await given.provider.close();
    browser.stopAt = given.newBrowser().stopAt;
    const code = given.codeOf(await browser.open(url));
    await assert.rejects(
      given.redeem(code),
      refused(/^The identity provider http:\S+ does not answer: .*ECONNREFUSED/, 5),
    );
    given.clock.ahead += 61 * minute;
    const atOnce = given.codeOf(await given.atProvider(given.newBrowser()));
    await assert.rejects(given.redeem(atOnce), refused(/does not answer/, 5));
    await assert.rejects(given.login.startDevice(), refused(/does not answer/, 5));
  });

  test('names another issuer, or is none, is not used', async (t) => {
    const given = await openLogin(t);
    const discovery = '/.well-known/openid-configuration';
    const { provider } = given;
    for (const [body, message] of [
      [JSON.stringify({ issuer: 'https://other.example' }), /names another issuer: https:\/\/other\.example\.$/],
      ['<html>', /is not valid: /],
    ] as const) {
      provider.tamper = (path) => (path === discovery ? body : undefined);
      const code = given.codeOf(await given.atProvider(given.newBrowser()));
      await assert.rejects(given.redeem(code), { message });
    }
    provider.tamper = () => undefined;
    await whole(given);
  });

  test('does not accept the client says so', async (t) => {
    const given = await openLogin(t, { secret: 'wrong' });
    await assert.rejects(
      whole(given),
      refused(/does not accept this server as its client \((?:status 401|invalid_client)/),
    );
    await assert.rejects(
      given.login.startDevice(),
      refused(/does not accept this server as its client \((?:status 401|invalid_client)/),
    );
    assert.equal(given.warnings.length, 2);
    for (const line of given.warnings) assert.match(line, /^a login failed: http\S+ does not accept this server/);
  });

  test('is asked by the person to cancel says so', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    const code = given.codeOf(await browser.click(await given.atProvider(browser), 'Cancel'));
    await assert.rejects(given.redeem(code), refused(/^The login was refused at http\S+ \(access_denied/));
  });

  test('has another clock says so', async (t) => {
    const given = await openLogin(t);
    given.clock.ahead = 30 * minute;
    await assert.rejects(whole(given), refused(/is not valid at this time \(exp\): the clock/));
  });

  test('sends an ID token that is not for this login is not believed', async (t) => {
    const given = await openLogin(t);
    const { provider } = given;
    const changes: readonly (readonly [object, RegExp])[] = [
      [{ aud: 'other' }, /has another audience than this login/],
      [{ iss: 'https://other.example' }, /has another issuer than this login/],
      [{ nonce: 'other' }, /has another nonce than this login/],
      [{ sub: 'eve', isForged: true }, /is not valid: JWT signature verification failed/],
    ];
    for (const [change, message] of changes) {
      provider.tamper = (path, body) => (path === '/token' ? withIdToken(provider, body, change) : undefined);
      await assert.rejects(whole(given), (error: JobmanError) => (assert.match(error.message, message), true));
    }
    assert.deepEqual([await given.tokens(), await given.audit()], [[], []]);
  });

  test('is not the one of the login is not asked', async (t) => {
    const given = await openLogin(t);
    const browser = given.newBrowser();
    browser.stopAt = (url) => url.pathname === '/login/callback';
    const { url } = await browser.logIn(await given.atProvider(browser), 'ada');
    browser.stopAt = given.newBrowser().stopAt;
    const mixed = new URL(url);
    mixed.searchParams.set('iss', 'https://other.example');
    const code = given.codeOf(await browser.open(mixed.href));
    await assert.rejects(given.redeem(code), refused(/is not valid: unexpected "iss"/, exitCode.unreachable));
    assert.equal(given.provider.requests.includes('/token'), false);
  });
});

/** The answer of the token endpoint with other claims, signed with the key of the provider unless `isForged`. */
function withIdToken(
  { key }: TestProvider,
  body: string,
  { isForged, ...change }: { readonly isForged?: boolean },
): string {
  const answer = JSON.parse(body) as { readonly id_token: string };
  const [header = '', payload = '', signature = ''] = answer.id_token.split('.');
  const claims = { ...(JSON.parse(Buffer.from(payload, 'base64url').toString()) as object), ...change };
  const changed = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  const signed = isForged === true ? signature : sign('sha256', Buffer.from(changed), key).toString('base64url');
  return JSON.stringify({ ...answer, id_token: `${changed}.${signed}` });
}

suite('a login with a code', () => {
  async function enter(browser: Browser, address: string, code: string): Promise<Page> {
    return browser.submit(await browser.open(address), { user_code: code });
  }

  test('waits for the browser, and counts once', async (t) => {
    const given = await openLogin(t);
    const { login } = given;
    const { deviceCode, userCode, verificationUri, intervalSeconds } = await login.startDevice();
    assert.equal(intervalSeconds, 5);
    assert.equal(await login.redeemDevice(deviceCode, 'node-1'), 'pending');
    given.provider.tamper = (path, _body, outgoing) => {
      if (path !== '/token') return undefined;
      outgoing.statusCode = 400;
      return JSON.stringify({ error: 'slow_down' });
    };
    assert.equal(await login.redeemDevice(deviceCode, 'node-1'), 'slow_down');
    given.provider.tamper = () => undefined;
    const browser = given.newBrowser();
    await browser.logIn(await browser.submit(await enter(browser, verificationUri, userCode)), 'ada');
    const answer = await login.redeemDevice(deviceCode, 'node-1');
    assert.ok(typeof answer === 'object');
    assert.deepEqual([answer.view.user, answer.view.name], ['ada', 'node-1']);
    const again = createServerLogin({ server: given.server.url, env: {}, replaced: answer.token });
    t.after(() => again.close());
    const next = await again.startDevice();
    const other = given.newBrowser();
    await other.logIn(await other.submit(await enter(other, next.verificationUri, next.userCode)), 'ada');
    const second = await again.redeemDevice(next.deviceCode, 'node-1');
    assert.ok(typeof second === 'object');
    assert.deepEqual(
      (await given.tokens()).map(({ name, revokedAt }) => [name, revokedAt !== null]),
      [
        ['node-1', true],
        ['node-1', false],
      ],
    );
    assert.equal((await given.audit())[0]?.detail['method'], 'device');
    await assert.rejects(login.redeemDevice(deviceCode, 'node-1'), refused(/returned the error invalid_grant/));
  });

  test('may be refused, expire, or be for an unknown person', async (t) => {
    const given = await openLogin(t);
    const { login, provider } = given;
    provider.people.set('eve', { email: 'eve@example.com', email_verified: true });
    const denied = await login.startDevice();
    const browser = given.newBrowser();
    const confirm = await enter(browser, denied.verificationUri, denied.userCode);
    await browser.submit(confirm, { abort: 'yes' });
    await assert.rejects(login.redeemDevice(denied.deviceCode, 'a'), refused(/^The login was refused at /));
    const unknown = await login.startDevice();
    const other = given.newBrowser();
    await other.logIn(await other.submit(await enter(other, unknown.verificationUri, unknown.userCode)), 'eve');
    await assert.rejects(
      login.redeemDevice(unknown.deviceCode, 'a'),
      refused(/^No user of this server has the account eve/),
    );
    const late = await login.startDevice();
    provider.tamper = (path, _body, outgoing) => {
      if (path !== '/token') return undefined;
      outgoing.statusCode = 400;
      return JSON.stringify({ error: 'expired_token' });
    };
    await assert.rejects(login.redeemDevice(late.deviceCode, 'a'), refused(/^The code has expired\. Log in again\.$/));
    assert.deepEqual(await given.tokens(), []);
  });

  test('is not offered by every provider', async (t) => {
    const given = await openLogin(t, { provider: await startProvider(t, { deviceFlow: false }) });
    await assert.rejects(given.login.startDevice(), refused(/offers no login with a code\.$/));
  });
});
