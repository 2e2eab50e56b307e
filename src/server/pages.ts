// The dashboard: its files, and the session of a browser. A session is a token in a cookie that no script can read.

import type { Context, Hono } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { pageNames } from '../api/page-names.ts';
import { versionHeader } from '../api/wire.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import { day, second } from '../core/model/time.ts';
import { readTexts } from './body.ts';
import type { Env } from './app.ts';
import type { Sender } from './sender.ts';

/** The built dashboard. */
export interface PageFiles {
  /** The document of every page. Its links to files begin with `./assets/`. */
  readonly html: string;
  /** By name. Each name contains a hash of the content. */
  readonly assets: ReadonlyMap<string, PageAsset>;
}

export interface PageAsset {
  readonly type: string;
  /** Compressed with gzip. */
  readonly content: Uint8Array<ArrayBuffer>;
}

export interface PageRoutes {
  /** Throws JobmanError if the dashboard is not built. */
  readonly files: () => Promise<PageFiles>;
  /** The path of this server for browsers, such as `/jobman`; empty at the root. */
  readonly prefix: () => Promise<string>;
  /** The token for a one-time code, which works once; null for any other string. */
  readonly redeemCode: (code: string) => string | null;
}

type PageContext = Context<Env>;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  // Of src/dashboard/logs/expression.ts, for one address.
  'trusted-types jobman-expressions',
].join('; ');

const cookieName = 'jobman-session';

interface SessionRules {
  /** Throws JobmanError for an invalid token. */
  readonly authenticate: (token: string, sender: Sender) => Promise<void>;
  /** Revokes the token if a login in the browser has created it. Throws JobmanError. */
  readonly endSession: (token: string) => Promise<void>;
}

export function addPageRoutes(
  app: Hono<Env>,
  { files, prefix, redeemCode }: PageRoutes,
  { authenticate, endSession }: SessionRules,
): void {
  const page = async (context: PageContext): Promise<Response> => {
    const { html } = await files();
    return context.body(html.replaceAll('./assets/', `${await prefix()}/assets/`), 200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'cache-control': 'no-cache',
    });
  };
  app.get('/', page);
  for (const name of pageNames) {
    app.get(`/${name}`, page);
    app.get(`/${name}/*`, page);
  }

  app.get('/assets/:name', async (context) => {
    const asset = (await files()).assets.get(context.req.param('name'));
    if (asset === undefined)
      throw new JobmanError('The dashboard of this version has no such file. Load the page again.', exitCode.notFound);
    return context.body(asset.content, 200, {
      'content-type': asset.type,
      'content-encoding': 'gzip',
      'cache-control': 'public, max-age=31536000, immutable',
      // A thread has the policy of its own script.
      'content-security-policy': "default-src 'none'",
    });
  });

  app.post('/session', async (context) => {
    requireOwnPage(context);
    const [token] = await readTexts(context.env.incoming, ['token']);
    await authenticate(token, context.get('sender'));
    const replaced = sessionToken(context);
    if (replaced !== undefined && replaced !== token) await endSession(replaced);
    beginSession(context, token);
    return context.body(null, 204);
  });
  app.delete('/session', async (context) => {
    requireOwnPage(context);
    const token = sessionToken(context);
    if (token !== undefined) await endSession(token);
    const { name, options } = cookieOf(context);
    deleteCookie(context, name, options);
    return context.body(null, 204);
  });
  app.get('/open', async (context) => {
    const token = redeemCode(context.req.query('code') ?? '');
    if (token !== null) beginSession(context, token);
    // Without a session, the page asks for a login.
    return context.redirect(`${await prefix()}/jobs`, 303);
  });
}

/** The token of a program; undefined without one. */
export function bearerToken({ req }: Context): string | undefined {
  return /^Bearer +(\S+)$/i.exec(req.header('authorization') ?? '')?.[1];
}

/** The token of the session; undefined without one, or for a request that another site may have caused. */
export function sessionToken(context: PageContext): string | undefined {
  if (!isFromOwnPage(context)) return undefined;
  const { name, options } = cookieOf(context);
  return 'prefix' in options ? getCookie(context, name, options.prefix) : getCookie(context, name);
}

/** Stores the token in a cookie of the browser, for the next requests of its pages. */
export function beginSession(context: PageContext, token: string): void {
  const { name, options } = cookieOf(context);
  setCookie(context, name, token, { ...options, maxAge: (90 * day) / second });
}

/**
 * Browsers send the cookies of a host to all of its ports, so the name contains the port. `__Host-` keeps other hosts of the
 * same domain from setting the cookie; browsers accept it only over TLS.
 */
function cookieOf(context: PageContext) {
  const { isSecure } = context.get('sender');
  const common = { path: '/', httpOnly: true, sameSite: 'Strict' } as const;
  return isSecure
    ? { name: cookieName, options: { ...common, prefix: 'host', secure: true } as const }
    : { name: `${cookieName}-${context.env.incoming.socket.localPort}`, options: common };
}

/** A browser sends this header for a page of another site only if the server allows it (CORS), which it never does. */
function isFromOwnPage({ req }: PageContext): boolean {
  if (req.header(versionHeader) !== undefined) return true;
  // A download cannot send headers.
  return req.method === 'GET' && req.header('sec-fetch-site') === 'same-origin';
}

function requireOwnPage(context: PageContext): void {
  if (!isFromOwnPage(context)) throw usageError(`The request must have the header ${versionHeader}.`);
}
