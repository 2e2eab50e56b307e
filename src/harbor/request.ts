// Request: questions to Harbor's API, with what every one of them needs: a login, an authority, lists in pages, and refusals as
// sentences. Nothing here changes anything, so all may be repeated.
// The API: https://github.com/goharbor/harbor/blob/main/api/v2.0/swagger.yaml

import type { IncomingHttpHeaders } from 'node:http';
import { exitCode, JobmanError } from '../app/errors.ts';
import { fits, type Form } from '../app/json.ts';
import { readRegularFile } from '../app/files.ts';
import { minute, second, type Duration } from '../core/time.ts';
import { certificateTrouble, NoReply, type Reply } from '../http/reply.ts';
import { createHttpClient, type Environment, type HttpClient, type RetryPolicy } from '../http/client.ts';
import type { LoginFound } from './docker-login.ts';

const usualRetry: RetryPolicy = { tries: 4, triesBroken: 4, first: 0.5 * second, most: 5 * second };
/** All questions of a command end within this time, counted from the first. */
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
  readonly env: Environment;
  readonly retry?: RetryPolicy | undefined;
  readonly whole?: Duration | undefined;
}

interface Question {
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
  readonly status: number;

  constructor(message: string, code: number, lines: readonly string[], status: number) {
    super(message, code, lines);
    this.name = 'HarborRefusal';
    this.status = status;
  }
}

/** Questions to one registry. Failures are JobmanError; a refusal is a HarborRefusal. */
export type Asker = ReturnType<typeof createAsker>;

/** Most that Harbor puts on a page; it answers 422 to more. */
const pageSize = 100;
/** A list that has no end is no list. */
const pagesMost = 1_000;
/** An answer that is larger is none of Harbor's: a page of artifacts has some hundred kilobytes. */
const answerMost = 16 * 1024 * 1024;

/** The questions to that registry. Nothing is read or asked before the first. */
export function createAsker({ base, caFile, login, env, retry = usualRetry, whole = usualWhole }: Way) {
  let client: HttpClient | undefined;
  let found: Promise<LoginFound> | undefined;
  let late: AbortSignal | undefined;

  async function ask({ path, query = {}, what }: Question): Promise<Reply> {
    late ??= AbortSignal.timeout(whole);
    const { login: pair } = await (found ??= login());
    client ??= createHttpClient({
      env,
      retry,
      limits: { answer: 20 * second, bytes: answerMost },
      trust: isPlain(base) ? {} : { extraCa: authorityIn(caFile) },
    });
    const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    const token = pair === null ? '' : Buffer.from(`${pair.user}:${pair.password}`).toString('base64');
    const asked = client.request({
      url: base,
      path: `/api/v2.0${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`,
      headers: { accept: 'application/json', ...(token === '' ? {} : { authorization: `Basic ${token}` }) },
      signal: late,
    });
    const reply = await asked.catch((error: unknown) => {
      if (late?.aborted !== true) throw error;
      const message = `Could not ${what}: the answers of ${base} took longer than ${whole / second} s.`;
      throw new JobmanError(message, exitCode.unreachable);
    });
    if (reply instanceof NoReply) throw unreachable(reply, what, base, caFile);
    if (reply.status >= 300) throw refusalOf(reply, what, base, await found);
    return reply;
  }

  function parsed<T>({ bytes }: Reply, isRight: (value: unknown) => boolean, { what }: Question): T {
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString('utf8'));
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
      let before: Buffer | undefined;
      for (let page = 1; page <= pagesMost; page += 1) {
        const answer = await ask({ ...question, query: { ...question.query, page, page_size: pageSize } });
        // An empty list may be told as null.
        const some =
          parsed<readonly T[] | null>(
            answer,
            (value) => value === null || fits(value, [question.form], true),
            question,
          ) ?? [];
        if (some.length > 0 && before?.equals(answer.bytes) === true) break;
        before = answer.bytes;
        for (const item of some) items.push(item);
        if (some.length === 0 || !hasNext(answer.headers, items.length, some.length)) return items;
      }
      throw new JobmanError(`Could not ${question.what}: the list of ${base} has no end.`, exitCode.unreachable);
    },
    close: () => client?.close(),
  };
}

/** Whether a page follows: the header Link says so, else the count of all; of neither, a page that is full. */
function hasNext({ link, 'x-total-count': total }: IncomingHttpHeaders, seen: number, onPage: number): boolean {
  const links = typeof link === 'string' ? link : link?.join(',');
  if (links !== undefined && links !== '') return /rel="?next"?/.test(links);
  const count = Number(total ?? Number.NaN);
  return Number.isFinite(count) ? seen < count : onPage >= pageSize;
}

function isPlain(base: string): boolean {
  return base.startsWith('http:');
}

function authorityIn(caFile: string | null): string | undefined {
  if (caFile === null) return undefined;
  const wrong = (why: string): JobmanError =>
    new JobmanError(`The certificates of harbor.caFile cannot be used: ${why}.`, exitCode.usage);
  let text: string;
  try {
    text = readRegularFile(caFile).toString('utf8');
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw wrong(`${caFile} has none in PEM`);
  return text;
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
  { status, headers, bytes }: Reply,
  what: string,
  base: string,
  found: LoginFound | undefined,
): HarborRefusal {
  const own = ownWords(bytes.toString('utf8'));
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
  { message, reason, cause }: NoReply,
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
