// Logins with an account: routes that need no token. The pages are for a browser, the other routes for `jobman login`.

import { createHash } from 'node:crypto';
import type { Context, Hono } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { toProblem } from './problem.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import { comparisonCode, pageHeaders, renderPage, type LoginPage } from '../app/login-page.ts';
import { loginTime, randomSecret, type CliTarget, type Logins } from '../app/oidc-logins.ts';
import { second } from '../core/model/time.ts';
import { readTexts } from './body.ts';
import { Overload } from './limits.ts';
import type { Env } from './app.ts';
import { bearerToken, beginSession, sessionToken } from './pages.ts';
import type { Sender } from './sender.ts';

export interface LoginRoutes {
  /** Null if the settings name no identity provider. Throws JobmanError. */
  readonly logins: () => Promise<Logins | null>;
  /** The address of this server for browsers; null: use the address of the request. */
  readonly url: () => Promise<string | null>;
  /** No token logs in, as at the dashboard of one user, which has a one-time address. */
  readonly onlyByAddress?: true;
}

type LoginContext = Context<Env>;

const secretPattern = /^[\w-]{43}$/;
const callbackPath = '/login/callback';
const cookieName = 'jobman-login';

interface LoginRules {
  /** Called for each step that sends requests to the identity provider. Throws Overload. */
  readonly admit: (sender: Sender) => void;
  /** Turns a bug into an error with the id of an incident. */
  readonly expected: (error: unknown) => JobmanError;
}

export function addLoginRoutes(app: Hono<Env>, routes: LoginRoutes, { admit, expected }: LoginRules): void {
  const page =
    (answer: (context: LoginContext) => Promise<LoginPage | URL>) =>
    (context: Context): Promise<Response> =>
      answerPage(context, () => answer(context as LoginContext), expected);
  app.get(
    '/login',
    page((context) => firstPage(context, routes)),
  );
  app.get(
    '/login/start',
    page((context) => {
      admit(context.get('sender'));
      return startLogin(context, routes);
    }),
  );
  app.get(
    '/login/page',
    page((context) => {
      admit(context.get('sender'));
      return startPageLogin(context, routes);
    }),
  );
  app.get(
    callbackPath,
    page(async (context) => {
      const parameters = new URL(context.req.url).searchParams;
      const own = await ownUrl(context, routes);
      const finished = await (await requireLogins(routes)).finish(parameters, browserOf(context, own) ?? '');
      if (finished.kind === 'cli') return new URL(finished.url);
      beginSession(context, finished.token);
      return new URL(own + finished.page);
    }),
  );

  const { onlyByAddress } = routes;
  app.get('/login/methods', async (context) => {
    const found = await routes.logins();
    return context.json({
      oidc: found === null ? null : { issuer: found.issuer },
      ...(onlyByAddress && { onlyByAddress }),
    });
  });
  app.post('/login/token', async (context) => {
    const [code, verifier, name] = await readTexts(context.env.incoming, ['code', 'verifier', 'name']);
    return context.json(await (await requireLogins(routes)).redeem(code, verifier, name, bearerToken(context)));
  });
  app.post('/login/device', async (context) => {
    admit(context.get('sender'));
    return context.json(await (await requireLogins(routes)).startDevice());
  });
  app.post('/login/device/token', async (context) => {
    admit(context.get('sender'));
    const [deviceCode, name] = await readTexts(context.env.incoming, ['deviceCode', 'name']);
    const answer = await (await requireLogins(routes)).redeemDevice(deviceCode, name, bearerToken(context));
    return context.json(typeof answer === 'string' ? { waiting: answer } : answer);
  });
}

async function requireLogins({ logins }: LoginRoutes): Promise<Logins> {
  const found = await logins();
  if (found !== null) return found;
  throw new JobmanError('This server has no identity provider. Ask an admin for a token.', exitCode.notFound);
}

// ------------------------------------------------------------------------------------------ pages

/** Responds with a page or a redirect; an error becomes a page too. */
async function answerPage(
  context: Context,
  answer: () => Promise<LoginPage | URL>,
  expected: (error: unknown) => JobmanError,
): Promise<Response> {
  let shown: LoginPage;
  let status = 200;
  try {
    const result = await answer();
    if (result instanceof URL) {
      // The address of this page contains secrets.
      context.header('referrer-policy', 'no-referrer');
      return context.redirect(result.href, 303);
    }
    shown = result;
  } catch (error) {
    const problem = expected(error);
    ({ status } = toProblem(problem, error instanceof Overload ? error.status : undefined));
    shown = { title: 'The login failed', lines: [problem.message, ...problem.lines] };
  }
  return context.body(renderPage(shown), status as ContentfulStatusCode, { ...pageHeaders });
}

/** Stores the secret of this browser in a cookie. All logins in one browser share the secret. */
function giveSecret(context: LoginContext, own: string): string {
  const browser = browserOf(context, own) ?? randomSecret();
  setCookie(context, cookieName, browser, {
    ...(isSecure(own) && { prefix: 'host', secure: true }),
    path: '/',
    httpOnly: true,
    sameSite: 'Lax',
    maxAge: loginTime / second,
  });
  return browser;
}

/** Begins a login to the dashboard. Another site that sends its visitors here can only log them in as themselves. */
async function startPageLogin(context: LoginContext, routes: LoginRoutes): Promise<URL> {
  const own = await ownUrl(context, routes);
  const page = context.req.query('page') ?? '/jobs';
  // Only the path of a page of this server: the callback must not redirect to another host.
  if (!/^\/(?![/\\])[^\s\\]{0,2000}$/.test(page))
    throw usageError('The parameter `page` must be the path of a page of this server.');
  const logins = await requireLogins(routes);
  const browser = giveSecret(context, own);
  // The provider sends the browser back without the cookie of its session.
  const session = sessionToken(context);
  return new URL(
    await logins.start({
      page,
      browser,
      redirectUri: `${own}${callbackPath}`,
      ...(session !== undefined && { session }),
    }),
  );
}

/** Gives the browser its secret. Does not begin the login, because any site can send its visitors here. */
async function firstPage(context: LoginContext, routes: LoginRoutes): Promise<LoginPage> {
  const { issuer } = await requireLogins(routes);
  const { port, state, challenge } = readLogin(context);
  const own = await ownUrl(context, routes);
  const browser = giveSecret(context, own);
  const proof = proofOf(browser, { port, state, challenge });
  const next = new URLSearchParams({ port: String(port), state, challenge, proof });
  return {
    title: 'Log in to jobman',
    lines: [
      `You will log in at ${new URL(issuer).host}. The command then has your rights on ${new URL(own).host}.`,
      'Continue only if you have just run "jobman login" on this computer, and it shows this code:',
    ],
    code: comparisonCode(challenge),
    link: { text: 'Continue', url: `login/start?${next.toString()}` },
  };
}

async function startLogin(context: LoginContext, routes: LoginRoutes): Promise<URL> {
  const login = readLogin(context);
  const own = await ownUrl(context, routes);
  const browser = browserOf(context, own);
  // Otherwise another site could start a login for a command that its visitor has not run.
  if (browser === undefined || context.req.query('proof') !== proofOf(browser, login))
    throw usageError('This page was not opened with the link Continue, or the browser refuses cookies.', [
      'Begin again: jobman login URL',
    ]);
  const logins = await requireLogins(routes);
  return new URL(await logins.start({ ...login, browser, redirectUri: `${own}${callbackPath}` }));
}

/** The address of this server as the browser uses it, which is registered at the provider. */
async function ownUrl(context: LoginContext, { url }: LoginRoutes): Promise<string> {
  const given = await url();
  if (given !== null) return given.replace(/\/+$/, '');
  const own = URL.parse(`${context.get('sender').isSecure ? 'https' : 'http'}://${context.req.header('host') ?? ''}`);
  if (own === null) throw usageError('The request has no valid header Host.');
  return own.origin;
}

function isSecure(own: string): boolean {
  return own.startsWith('https:');
}

/** `__Host-` keeps other hosts of the same domain from setting the cookie. Browsers accept it over TLS only. */
function browserOf(context: LoginContext, own: string): string | undefined {
  const value = isSecure(own) ? getCookie(context, cookieName, 'host') : getCookie(context, cookieName);
  return value !== undefined && secretPattern.test(value) ? value : undefined;
}

/** Throws JobmanError (2). */
function readLogin({ req }: LoginContext): CliTarget {
  const [port, state = '', challenge = ''] = [Number(req.query('port')), req.query('state'), req.query('challenge')];
  const isPort = Number.isInteger(port) && port >= 1024 && port <= 65_535;
  if (isPort && secretPattern.test(state) && secretPattern.test(challenge)) return { port, state, challenge };
  throw usageError('This page belongs to a command. Run it in a terminal: jobman login URL');
}

function proofOf(browser: string, { port, state, challenge }: CliTarget): string {
  return createHash('sha256').update([browser, port, state, challenge].join(' ')).digest('base64url');
}
