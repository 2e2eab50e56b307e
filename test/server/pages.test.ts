/** The dashboard's files and sessions, as a browser and other sites ask for them. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import type { PageRoutes } from '../../src/server/pages.ts';
import { openServer } from './support/server.ts';

const pages: PageRoutes = {
  files: async () => ({
    html: '<script src="./assets/main-1.js"></script>',
    assets: new Map([['main-1.js', { type: 'text/javascript', content: new Uint8Array(gzipSync('start()')) }]]),
  }),
  prefix: async () => '/jobman',
  redeemCode: (code) => (code === 'right' ? 'token-of-ada' : null),
};

const client = { whoAmI: async () => ({ user: 'ada', role: 'member', via: 'token', logins: [] }) };
const ownPage = { 'jobman-version': '0' };

/** As fetch, which sends no header of a browser's own. */
async function ask(url: string, headers: Readonly<Record<string, string>> = {}, method = 'GET', body?: string) {
  return new Promise<{ status: number; headers: Readonly<Record<string, unknown>>; text: string }>(
    (resolve, reject) => {
      const asked = request(url, { method, headers }, (answer) => {
        text(answer).then(
          (content) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: content }),
          reject,
        );
      });
      asked.on('error', reject).end(body);
    },
  );
}

const logIn = (url: string, token: string, headers: Readonly<Record<string, string>> = ownPage) =>
  ask(`${url}/session`, { ...headers, 'content-type': 'application/json' }, 'POST', JSON.stringify({ token }));

function cookieOf({ headers }: { readonly headers: Readonly<Record<string, unknown>> }): readonly string[] {
  return (headers['set-cookie'] as readonly string[])[0]?.split('; ') ?? [];
}

test('each page has the files and a policy without inline scripts, and needs no login', async (t) => {
  const { server } = await openServer(t, { pages });
  for (const path of ['/', '/jobs', '/jobs/000042', '/tokens']) {
    const { status, headers, text: html } = await ask(server.url + path);
    assert.equal(status, 200);
    assert.equal(html, '<script src="/jobman/assets/main-1.js"></script>');
    assert.match(
      String(headers['content-security-policy']),
      /default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self';/,
    );
    assert.doesNotMatch(String(headers['content-security-policy']), /unsafe/);
    assert.equal(headers['x-content-type-options'], 'nosniff');
  }
  const asset = await fetch(`${server.url}/assets/main-1.js`);
  assert.equal(await asset.text(), 'start()');
  assert.match(asset.headers.get('cache-control') ?? '', /immutable/);
  assert.equal(asset.headers.get('content-security-policy'), "default-src 'none'");
  for (const path of ['/assets/main-2.js', '/assets/..%2fmain-1.js', '/other'])
    assert.equal((await ask(server.url + path)).status, 404);
});

test('a session is a cookie that no script reads and no other site sends', async (t) => {
  const { server } = await openServer(t, { client, pages });
  const answer = await logIn(server.url, 'token-of-ada');
  assert.equal(answer.status, 204);
  const [cookie = '', ...attributes] = cookieOf(answer);
  assert.equal(cookie, `jobman-session-${new URL(server.url).port}=token-of-ada`);
  assert.deepEqual(attributes.toSorted(), ['HttpOnly', 'Max-Age=7776000', 'Path=/', 'SameSite=Strict']);

  const user = (headers: Readonly<Record<string, string>>) => ask(`${server.url}/v1/user`, headers);
  assert.equal((await user({ cookie, ...ownPage })).status, 200);
  assert.equal((await user({ cookie, 'sec-fetch-site': 'same-origin' })).status, 200, 'a download');
  // A form or an image of another site.
  assert.equal((await user({ cookie })).status, 401);
  assert.equal((await user({ cookie, 'sec-fetch-site': 'cross-site' })).status, 401);
  assert.equal((await user({ cookie, 'sec-fetch-site': 'same-site' })).status, 401);
  const stop = (headers: Readonly<Record<string, string>>) =>
    ask(`${server.url}/v1/jobs/1/commands/stop`, { cookie, 'content-type': 'text/plain', ...headers }, 'POST', '{}');
  assert.equal((await stop({})).status, 401);
  assert.equal((await stop({ 'sec-fetch-site': 'same-origin' })).status, 401);

  const left = await ask(`${server.url}/session`, { cookie, ...ownPage }, 'DELETE');
  assert.equal(left.status, 204);
  assert.match(cookieOf(left).join('; '), /=; Max-Age=0; Path=\//);
});

test('a session begins with a token that counts, or with a one-time code', async (t) => {
  const { server } = await openServer(t, { client, pages });
  assert.equal((await logIn(server.url, 'wrong')).status, 401);
  assert.equal((await logIn(server.url, 'token-of-ada', {})).status, 400, 'another site can send a form');
  assert.equal((await ask(`${server.url}/session`, ownPage, 'POST', '{"token":1}')).status, 400);
  const open = (code: string) => ask(`${server.url}/open?code=${code}`);
  assert.match(cookieOf(await open('right'))[0] ?? '', /=token-of-ada$/);
  const wrong = await open('wrong');
  assert.deepEqual([wrong.status, wrong.headers['location']], [303, '/jobman/jobs']);
  assert.equal(wrong.headers['set-cookie'], undefined);
});

test('over TLS no other host of the domain can set the session', async (t) => {
  const { server } = await openServer(t, { client, pages, trustedProxies: ['127.0.0.1'] });
  const answer = await logIn(server.url, 'token-of-ada', {
    ...ownPage,
    'x-forwarded-proto': 'https',
    'x-forwarded-for': '192.0.2.1',
  });
  const [cookie = '', ...attributes] = cookieOf(answer);
  assert.equal(cookie, '__Host-jobman-session=token-of-ada');
  assert.ok(attributes.includes('Secure'));
});
