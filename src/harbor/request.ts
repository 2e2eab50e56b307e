// Request: questions to Harbor's API, with what every one of them needs: a login, a certificate that is looked at, a second
// try where one may help, lists in pages, and refusals as sentences. Nothing here changes anything, so all may be repeated.
// The API: https://github.com/goharbor/harbor/blob/main/api/v2.0/swagger.yaml

import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { certificateTrouble } from '../app/certificate-trouble.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { fits, type Form } from '../app/form.ts';
import { wholeBody } from '../app/whole-body.ts';
import { minute, second, type Duration } from '../core/time.ts';
import type { LoginFound } from './docker-login.ts';

/** How often and how long a question is asked again. */
export interface Patience {
  readonly tries: number;
  /** Before the second try; doubled for each further one. */
  readonly first: Duration;
  /** The longest single wait, even where the registry asks for more. */
  readonly most: Duration;
  /** A registry that says nothing for so long counts as one that did not answer. */
  readonly silence: Duration;
  /** All questions of a command end within this time, counted from the first. */
  readonly whole?: Duration;
}

const usualPatience: Patience = { tries: 4, first: 0.5 * second, most: 5 * second, silence: 20 * second };
const usualWhole: Duration = 5 * minute;

/** How a registry is reached. */
export interface Way {
  /** `https://harbor.example.com`, with a path where it lies below one, without a slash at its end. */
  readonly base: string;
  /** The authority's certificates besides those of this machine; null where the settings name none. */
  readonly caFile: string | null;
  /** Asked for once, before the first question. */
  readonly login: () => Promise<LoginFound>;
  /** A proxy may be named here, as everywhere. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly patience?: Patience;
}

/** One question. */
export interface Question {
  /** Below `/api/v2.0`; its parts are encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number>>;
  /** Of the answer; of a list, of each of its items. */
  readonly form: Form;
  /** `list the images of lab`, as it stands behind "could not". */
  readonly what: string;
}

/** Harbor refused. */
export class HarborRefusal extends JobmanError {
  /** The HTTP status. */
  readonly status: number;

  constructor(message: string, code: number, lines: readonly string[], status: number) {
    super(message, code, lines);
    this.name = 'HarborRefusal';
    this.status = status;
  }
}

/** Questions to one registry. Failures are JobmanError; a refusal is a HarborRefusal. */
export interface Asker {
  get<T>(question: Question): Promise<T>;
  /** A list from its first page to its last. */
  all<T>(question: Question): Promise<readonly T[]>;
  close(): void;
}

/** Most that Harbor puts on a page; it answers 422 to more. */
const pageSize = 100;
/** A list that has no end is no list. */
const pagesMost = 1_000;
/** An answer that is larger is none of Harbor's: a page of artifacts has some hundred kilobytes. */
const answerMost = 16 * 1024 * 1024;

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** No answer came, or it broke off. */
class LineError extends Error {
  readonly reason: string | null;

  constructor(message: string, reason: string | null, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The questions to that registry. Nothing is read or asked before the first. */
export function createAsker(way: Way): Asker {
  const { base, caFile, env, patience = usualPatience } = way;
  const server = new URL(base);
  const isPlain = server.protocol === 'http:';
  let login: Promise<LoginFound> | undefined;
  let line: Promise<Line> | undefined;
  let until: number | undefined;

  /** How long the questions may still take. Throws JobmanError when that time is over. */
  function timeLeft(what: string): Duration {
    const { whole = usualWhole } = patience;
    until ??= performance.now() + whole;
    const left = until - performance.now();
    if (left > 0) return left;
    throw new JobmanError(
      `Could not ${what}: the answers of ${base} took longer than ${whole / second} s.`,
      exitCode.unreachable,
    );
  }

  const once = async (path: string, left: Duration): Promise<Answer> => {
    const { login: found } = await (login ??= way.login());
    const { send } = await (line ??= openLine(isPlain, caFile, env));
    const pair = found === null ? undefined : Buffer.from(`${found.user}:${found.password}`).toString('base64');
    return send(
      {
        method: 'GET',
        protocol: server.protocol,
        host: server.hostname.replace(/^\[|\]$/g, ''),
        ...(server.port === '' ? {} : { port: server.port }),
        path,
        headers: { accept: 'application/json', ...(pair === undefined ? {} : { authorization: `Basic ${pair}` }) },
      },
      { silence: patience.silence, left },
    );
  };

  async function ask(question: Question): Promise<Answer> {
    const query = Object.entries(question.query ?? {}).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    const path = `${server.pathname.replace(/\/+$/, '')}/api/v2.0${question.path}${query.length === 0 ? '' : `?${query.join('&')}`}`;
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= patience.tries;
      let wait = patience.first * 2 ** (attempt - 1);
      try {
        const answer = await once(path, timeLeft(question.what));
        if (answer.status < 300) return answer;
        if (isLast || !isPassing(answer.status)) throw refusalOf(answer, question.what, base, await login);
        wait = Math.max(wait, askedWait(answer.headers));
      } catch (error) {
        if (!(error instanceof LineError)) throw error;
        // A name that is not known and a certificate that is not accepted stay so.
        if (isLast || !isBreak(error)) throw unreachable(error, question.what, base, caFile);
      }
      await sleep(Math.min(wait, patience.most));
    }
  }

  function parsed<T>({ text }: Answer, isRight: (value: unknown) => boolean, { what }: Question): T {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (isRight(value)) return value as T;
    throw new JobmanError(`Could not ${what}: what answers at ${base} is no Harbor.`, exitCode.unreachable, [
      `harbor.url of the settings is the address that a browser shows, like https://harbor.example.com.`,
    ]);
  }

  return {
    async get<T>(question: Question) {
      return parsed<T>(await ask(question), (value) => fits(value, question.form, true), question);
    },
    async all<T>(question: Question) {
      const items: T[] = [];
      let before = '';
      for (let page = 1; page <= pagesMost; page += 1) {
        const answer = await ask({ ...question, query: { ...question.query, page, page_size: pageSize } });
        // An empty list may be told as null.
        const some =
          parsed<readonly T[] | null>(
            answer,
            (value) => value === null || fits(value, [question.form], true),
            question,
          ) ?? [];
        if (some.length > 0 && answer.text === before) break;
        before = answer.text;
        for (const item of some) items.push(item);
        if (some.length === 0 || !hasNext(answer.headers, items.length, some.length)) return items;
      }
      throw new JobmanError(`Could not ${question.what}: the list of ${base} has no end.`, exitCode.unreachable);
    },
    close() {
      void line?.then(
        ({ close }) => close(),
        () => undefined,
      );
    },
  };
}

/** Whether a page follows: the header Link says so, else the count of all; of neither, a page that is full. */
function hasNext({ link, 'x-total-count': total }: IncomingHttpHeaders, seen: number, onPage: number): boolean {
  const links = typeof link === 'string' ? link : link?.join(',');
  if (links !== undefined && links !== '') return /rel="?next"?/.test(links);
  const count = Number(total ?? Number.NaN);
  return Number.isFinite(count) ? seen < count : onPage >= pageSize;
}

// ------------------------------------------------------------------------------------------ the line

interface Line {
  readonly send: (
    options: RequestOptions,
    times: { readonly silence: Duration; readonly left: Duration },
  ) => Promise<Answer>;
  readonly close: () => void;
}

/** Connections that are kept for the next question. A certificate is always looked at. */
async function openLine(isPlain: boolean, caFile: string | null, env: Way['env']): Promise<Line> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]);
  const proxyEnv = Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
  const common = { keepAlive: true, proxyEnv };
  const ca = isPlain ? undefined : await authorities(caFile);
  const { Agent, request } = isPlain ? await import('node:http') : await import('node:https');
  const agent = new Agent({ ...common, ...(ca === undefined ? {} : { ca: [...ca] }) });

  const send: Line['send'] = (options, { silence, left }) =>
    new Promise((resolve, reject) => {
      let late: Error | undefined;
      const fail = (error: NodeJS.ErrnoException): void => reject(lineError(late ?? error));
      const endAfter = (length: Duration, what: string): NodeJS.Timeout =>
        setTimeout(() => {
          late = new Error(`${what} within ${Math.ceil(length / second)} s`);
          outgoing.destroy(late);
        }, length);
      const outgoing = request({ ...options, agent }, (incoming) => {
        incoming.on('data', () => timers[0]?.refresh());
        wholeBody(incoming, answerMost).then(
          (bytes) =>
            resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text: bytes.toString('utf8') }),
          fail,
        );
      });
      const timers = [endAfter(silence, 'no answer'), endAfter(left, 'no whole answer')];
      outgoing.on('error', fail);
      outgoing.on('close', () => timers.forEach(clearTimeout));
      outgoing.end();
    });
  return { send, close: () => agent.destroy() };
}

/** Those of this machine and those of the file. Throws JobmanError when the file cannot be read or holds none. */
async function authorities(caFile: string | null): Promise<readonly string[] | undefined> {
  if (caFile === null) return undefined;
  const wrong = (why: string): JobmanError =>
    new JobmanError(`The certificates of harbor.caFile cannot be used: ${why}.`, exitCode.usage);
  let text: string;
  try {
    text = readFileSync(caFile, 'utf8');
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw wrong(`${caFile} has none in PEM`);
  const { getCACertificates } = await import('node:tls');
  return [...getCACertificates('default'), text];
}

function lineError(error: NodeJS.ErrnoException): LineError {
  const all = error instanceof AggregateError ? (error.errors as readonly NodeJS.ErrnoException[]) : [error];
  const message = all.map((one) => one.message).join(', ') || error.message;
  return new LineError(message, error.code ?? all[0]?.code ?? null, { cause: error });
}

// ------------------------------------------------------------------------------------------ what goes wrong

/** Too many questions, or a registry that is just being started: another try may do. */
function isPassing(status: number): boolean {
  return status === 429 || status === 500 || (status >= 502 && status <= 504);
}

/** A line that broke, where another try finds another one. */
function isBreak({ reason }: LineError): boolean {
  return reason === 'ECONNRESET' || reason === 'EPIPE' || reason === 'EAI_AGAIN';
}

/** What Retry-After asks for: seconds, or a date. */
function askedWait(headers: IncomingHttpHeaders): Duration {
  const said = headers['retry-after'];
  if (said === undefined) return 0;
  const asked = /^\d+$/.test(said) ? Number(said) * second : Date.parse(said) - Date.parse(headers.date ?? '');
  return Number.isFinite(asked) ? asked : 0;
}

/** Harbor's own words: `{"errors": [{"code": "NOT_FOUND", "message": "…"}]}`. */
function ownWords(text: string): readonly string[] {
  try {
    const { errors } = JSON.parse(text) as {
      readonly errors?: readonly { readonly code?: unknown; readonly message?: unknown }[];
    };
    return (errors ?? []).map(({ code, message }) => `${String(code)}: ${String(message)}`);
  } catch {
    const [first = ''] = text.trim().split('\n');
    return first === '' || first.startsWith('<') ? [] : [first.slice(0, 300)];
  }
}

function refusalOf(
  { status, headers, text }: Answer,
  what: string,
  base: string,
  found: LoginFound | undefined,
): HarborRefusal {
  const own = ownWords(text);
  const refuse = (message: string, code: number, lines: readonly string[] = []): HarborRefusal =>
    new HarborRefusal(message, code, [...lines, ...own], status);
  const login = found?.login ?? null;
  const trouble = found?.problem === null || found?.problem === undefined ? [] : [`Beside it, ${found.problem}.`];
  switch (status) {
    case 401:
      return login === null
        ? refuse(`Could not ${what}: ${base} wants a login.`, exitCode.unreachable, [
            `Log in with \`docker login ${new URL(base).host}\`, or set harbor.user and harbor.password.`,
            ...trouble,
          ])
        : refuse(`${base} does not accept the login of ${login.user}.`, exitCode.unreachable, [
            'Log in again with `docker login`, or set harbor.user and harbor.password anew.',
          ]);
    case 403:
      // Harbor tells nobody whether a project that he may not see is there.
      return refuse(
        `Could not ${what}: there is no such project, or ${login === null ? 'nobody' : login.user} may not look at it.`,
        exitCode.failed,
        ['Whoever owns the project can make you a member.', ...trouble],
      );
    case 404:
      return refuse(`Could not ${what}: ${base} does not have it.`, exitCode.notFound);
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return refuse(
        `Could not ${what}: ${base} was asked several times and is too busy or broken (HTTP ${status}).`,
        exitCode.unreachable,
      );
    default:
      return status >= 300 && status < 400
        ? refuse(`Could not ${what}: ${base} leads to ${headers.location ?? 'another place'}.`, exitCode.unreachable, [
            'Set harbor.url to the address itself: a login is not handed on to another one.',
          ])
        : refuse(`Could not ${what}: ${base} refused it (HTTP ${status}).`, exitCode.failed);
  }
}

function unreachable(
  { message, reason, cause }: LineError,
  what: string,
  base: string,
  caFile: string | null,
): JobmanError {
  const certificate = certificateTrouble(reason);
  if (certificate === undefined) {
    return new JobmanError(`Could not ${what}: ${base} did not answer.`, exitCode.unreachable, [message], { cause });
  }
  return new JobmanError(
    `Could not ${what}: the certificate of ${base} ${certificate}.`,
    exitCode.unreachable,
    [
      caFile === null
        ? 'If it is of an authority of your own, name its certificates with harbor.caFile of the settings.'
        : `harbor.caFile of the settings names ${caFile}, which does not vouch for it.`,
      message,
    ],
    { cause },
  );
}
