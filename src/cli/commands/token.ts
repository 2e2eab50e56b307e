import { exitCode } from '../../app/errors.ts';
import { formatAge, formatDate, formatExpiry, formatTokenEnd } from '../../app/format.ts';
import type { TokenView } from '../../app/tokens.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { CreateTokenFlags, RevokeTokenFlags } from '../table/flags.ts';

export async function list(cli: Cli): Promise<number> {
  const tokens = await (await cli.services.client()).tokens();
  if (cli.json) {
    cli.printJsonLines(tokens);
    return exitCode.ok;
  }
  if (tokens.length === 0) {
    cli.note('No tokens yet. Create one: jobman token create');
    return exitCode.ok;
  }
  const now = cli.io.now();
  const columns: readonly Column<TokenView>[] = [
    { title: 'TOKEN', text: ({ name }) => name },
    { title: 'ID', text: ({ id }) => id },
    { title: 'USER', text: ({ user }) => user },
    { title: 'ROLE', text: ({ role }) => role },
    { title: 'CREATED', text: ({ createdAt }) => formatDate(createdAt, now) },
    { title: 'EXPIRES', text: (token) => formatTokenEnd(token, now) },
    {
      title: 'LAST USED',
      text: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : `${formatAge(now - lastUsedAt)} ago`),
    },
  ];
  cli.printAll(fittedTable(columns, tokens, ['CREATED', 'ID', 'LAST USED'], columnsOf(cli.io.stdout)));
  return exitCode.ok;
}

/** Standard output has the token alone, so that a script can store it. */
export async function create(cli: Cli, flags: CreateTokenFlags & GlobalFlags): Promise<number> {
  const { name, role, user, expires: validForMs } = flags;
  const client = await cli.services.client();
  const { token, view, registered } = await client.createToken(omitUndefined({ name, role, user, validForMs }));
  if (registered) cli.note(`Registered the user ${view.user} as admin.`);
  if (cli.json) cli.printJson({ ...view, token });
  else cli.print(token);
  cli.note(
    `Created the token ${view.name} of ${view.user} with the role ${view.role}. It expires on ${formatExpiry(view.expiresAt, cli.io.now())}. ` +
      'Store it now: it is not shown again.',
  );
  return exitCode.ok;
}

export async function revoke(cli: Cli, { user }: RevokeTokenFlags & GlobalFlags, ref: string): Promise<number> {
  const client = await cli.services.client();
  const { view, changed } = await client.revokeToken(ref, user);
  const message = changed
    ? `Revoked the token ${view.name} of ${view.user}, from the next request on.`
    : `The token ${view.name} of ${view.user} is already revoked.`;
  cli.printResult({ ...view, message }, message);
  return exitCode.ok;
}
