// Read requests to Harbor's API: login, certificates, paged lists, refusals as messages. They change nothing, so all
// may be repeated. The API: https://github.com/goharbor/harbor/blob/main/api/v2.0/swagger.yaml

import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { parseShape, type Shape, type ShapeValue } from '../app/json.ts';
import { readAuthorities } from '../files/certificates.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import { certificateProblem, NoReply, type Reply } from '../http/reply.ts';
import { createHttpClient, isOverloaded, type Environment, type HttpClient, type RetryPolicy } from '../http/client.ts';
import type { LoginResult } from './docker-login.ts';

const defaultRetry: RetryPolicy = {
  maxTries: 4,
  maxTriesIfBroken: 4,
  initialDelay: 0.5 * second,
  maxDelay: 5 * second,
};
/** For all requests of a command together, from the first. */
const defaultTimeout: Duration = 5 * minute;

export interface HarborConnection {
  /** `https://harbor.example.com`, with a path if Harbor has one, without a final slash. */
  readonly base: string;
  /** Certificates that are trusted in addition to this machine's; null without the setting. */
  readonly caFile: string | null;
  readonly login: () => Promise<LoginResult>;
  readonly env: Environment;
  readonly retry?: RetryPolicy | undefined;
  readonly timeout?: Duration | undefined;
}

interface HarborRequest {
  /** Below `/api/v2.0`, already encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number>>;
  /** The shape of the answer; for a list, of each item. */
  readonly form: Shape;
  /** `list the images of lab`: the messages continue "Could not" with it. */
  readonly action: string;
}

export class HarborError extends JobmanError {
  readonly status: number;

  constructor(message: string, code: number, lines: readonly string[], status: number) {
    super(message, code, lines);
    this.name = 'HarborError';
    this.status = status;
  }
}

/** Requests to one registry. Failures are JobmanError; a refusal is a HarborError. */
export type HarborClient = ReturnType<typeof createHarborClient>;

/** Harbor's maximum; it answers 422 to more. */
const pageSize = 100;
const maxPages = 1_000;
/** A page of artifacts has some hundred kilobytes; a larger answer is not Harbor's. */
const maxReplyBytes = 16 * 1024 * 1024;

/** A client of one registry. It reads and requests nothing before the first call. */
export function createHarborClient(connection: HarborConnection) {
  const { base, caFile, login, env, retry = defaultRetry, timeout = defaultTimeout } = connection;
  let client: HttpClient | undefined;
  let found: Promise<LoginResult> | undefined;
  let deadline: AbortSignal | undefined;

  async function send({ path, query = {}, action }: HarborRequest): Promise<Reply> {
    deadline ??= AbortSignal.timeout(timeout);
    const { login: credentials } = await (found ??= login());
    client ??= createHttpClient({
      env,
      retry,
      limits: { answer: 20 * second, bytes: maxReplyBytes },
      trust: base.startsWith('http:') ? {} : { extraCa: readCaFile(caFile) },
    });
    const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    const token =
      credentials === null ? '' : Buffer.from(`${credentials.user}:${credentials.password}`).toString('base64');
    const pending = client.request({
      url: base,
      path: `/api/v2.0${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`,
      headers: { accept: 'application/json', ...(token === '' ? {} : { authorization: `Basic ${token}` }) },
      signal: deadline,
    });
    const reply = await pending.catch((error: unknown) => {
      if (deadline?.aborted !== true) throw error;
      const message = `Could not ${action}: the answers of ${base} took longer than ${timeout / second} s.`;
      throw new JobmanError(message, exitCode.unreachable);
    });
    if (reply instanceof NoReply) throw unreachable(reply, action, base, caFile);
    if (reply.status >= 300) throw toHarborError(reply, action, base, await found);
    return reply;
  }

  function parsed<const S extends Shape>({ bytes }: Reply, shape: S, { action }: HarborRequest): ShapeValue<S> {
    const value = parseShape(bytes.toString('utf8'), shape, true);
    if (value !== undefined) return value;
    throw new JobmanError(`Could not ${action}: the server at ${base} is not Harbor.`, exitCode.unreachable, [
      'The setting harbor.url is the address in a browser, like https://harbor.example.com.',
    ]);
  }

  return {
    async get<T>(request: HarborRequest) {
      return parsed(await send(request), request.form, request) as T;
    },
    async list<T>(request: HarborRequest) {
      const items: T[] = [];
      let before: Buffer | undefined;
      for (let page = 1; page <= maxPages; page += 1) {
        const answer = await send({ ...request, query: { ...request.query, page, page_size: pageSize } });
        // Harbor may send an empty list as null.
        const isNull = answer.bytes.toString('utf8').trim() === 'null';
        const some = isNull ? [] : (parsed(answer, [request.form], request) as readonly T[]);
        if (some.length > 0 && before?.equals(answer.bytes) === true) break;
        before = answer.bytes;
        for (const item of some) items.push(item);
        if (some.length < pageSize) return items;
      }
      throw new JobmanError(`Could not ${request.action}: the list of ${base} has no end.`, exitCode.unreachable);
    },
    close: () => client?.close(),
  };
}

function readCaFile(caFile: string | null): string | undefined {
  if (caFile === null) return undefined;
  try {
    return readAuthorities(caFile);
  } catch (error) {
    throw new JobmanError(`The certificates of harbor.caFile cannot be used: ${messageOf(error)}.`, exitCode.usage);
  }
}

const errorShape = { errors: [{ code: 'string', message: 'string' }] } as const satisfies Shape;

function serverMessages(text: string): readonly string[] {
  const body = parseShape(text, errorShape, true);
  if (body !== undefined) return (body.errors ?? []).map(({ code, message }) => `${code}: ${message}`);
  const [first = ''] = text.trim().split('\n');
  return first === '' || first.startsWith('<') ? [] : [first.slice(0, 300)];
}

function toHarborError(
  { status, headers, bytes }: Reply,
  action: string,
  base: string,
  found: LoginResult | undefined,
): HarborError {
  const messages = serverMessages(bytes.toString('utf8'));
  const refuse = (message: string, code: number, lines: readonly string[] = []): HarborError =>
    new HarborError(message, code, [...lines, ...messages], status);
  const login = found?.login ?? null;
  const loginProblem = found?.problem === null || found?.problem === undefined ? [] : [`Also, ${found.problem}.`];
  switch (status) {
    case 401:
      return login === null
        ? refuse(`Could not ${action}: ${base} requires a login.`, exitCode.unreachable, [
            `Log in with \`docker login ${new URL(base).host}\`, or set harbor.user and harbor.password.`,
            ...loginProblem,
          ])
        : refuse(`${base} does not accept the login of ${login.user}.`, exitCode.unreachable, [
            'Log in again with `docker login`, or update harbor.user and harbor.password.',
          ]);
    case 403:
      // Harbor answers 403 for an invisible project and for a missing one.
      return refuse(
        `Could not ${action}: the project does not exist, or ${login === null ? 'it requires a login' : `${login.user} may not read it`}.`,
        exitCode.failed,
        ['The owner of the project can make you a member.', ...loginProblem],
      );
    case 404:
      return refuse(`Could not ${action}: ${base} does not have it.`, exitCode.notFound);
  }
  if (isOverloaded(status))
    return refuse(`Could not ${action}: ${base} is overloaded or broken (HTTP ${status}).`, exitCode.unreachable);
  return status < 400
    ? refuse(
        `Could not ${action}: ${base} redirects to ${headers.location ?? 'another address'}.`,
        exitCode.unreachable,
        ['Set harbor.url to that address: a login is never sent to another address.'],
      )
    : refuse(`Could not ${action}: ${base} refused it (HTTP ${status}).`, exitCode.failed);
}

function unreachable(
  { message, reason, cause }: NoReply,
  action: string,
  base: string,
  caFile: string | null,
): JobmanError {
  const certificate = certificateProblem(reason);
  if (certificate === undefined) {
    return new JobmanError(`Could not ${action}: ${base} did not answer.`, exitCode.unreachable, [message], { cause });
  }
  return new JobmanError(
    `Could not ${action}: the certificate of ${base} ${certificate}.`,
    exitCode.unreachable,
    [
      caFile === null
        ? 'If it is from your own authority, set harbor.caFile to its certificates.'
        : `The certificates in harbor.caFile (${caFile}) do not sign it.`,
      message,
    ],
    { cause },
  );
}
