import { roles } from '../../core/model/user.ts';
import { command, grouped } from '../command.ts';
import { limitArguments, roleArguments, tokenNames, userNames } from '../completion/proposals.ts';
import { addUserFlags, auditFlags, createTokenFlags, revokeTokenFlags } from './flags.ts';

const user = { name: 'name', summary: 'Name of the user', needed: true, propose: userNames } as const;

export const users = grouped('Users', [
  command({
    names: ['user', 'user list', 'user ls'],
    summary: 'List the registered users: role, logins, limits',
    about: 'An admin sees all users, other users only their own entry. docs/users.md explains roles and limits.',
    examples: [['jobman user', 'every user, with role, logins and limits']],
    load: async () => (await import('../commands/user.ts')).list,
  }),
  command({
    names: ['user add'],
    summary: 'Add a user',
    usage: '<name> [--role role] [--login login]... [--account account]',
    about: 'Only an admin can add users. On the machine of the database, root and the owner of the home are admins.',
    examples: [
      ['jobman user add ada --login ada1', 'a member; the login ada1 of this machine belongs to ada alone'],
      ['jobman user add grace --role admin', 'an admin, who uses a token'],
      ['jobman user add alan --account alan@example.com', 'a member, who logs in to the server with that account'],
    ],
    exitCodes: { 4: 'the name, a login or the account is taken, or you are not an admin' },
    flags: addUserFlags,
    args: [{ ...user, propose: () => [] }],
    load: async () => (await import('../commands/user.ts')).add,
  }),
  command({
    names: ['user role'],
    summary: 'Change the role of a user',
    usage: `<name> ${roles.join('|')}`,
    examples: [['jobman user role ada viewer', 'ada can read every list and their own jobs, and change nothing']],
    exitCodes: { 3: 'there is no user of this name', 4: 'the user is the last admin, or you are not an admin' },
    args: [{ name: 'name', summary: 'Name of the user, and the role', many: true, propose: roleArguments }],
    load: async () => (await import('../commands/user.ts')).role,
  }),
  command({
    names: ['user logins'],
    summary: 'Set the logins of a user',
    usage: '<name> [login]...',
    examples: [
      ['jobman user logins ada ada1 ada-laptop', 'both logins belong to ada alone'],
      ['jobman user logins ada', 'no login'],
    ],
    exitCodes: { 3: 'there is no user of this name', 4: 'another user has the login, or you are not an admin' },
    args: [{ name: 'name', summary: 'Name of the user, and the logins', many: true, propose: userNames }],
    load: async () => (await import('../commands/user.ts')).logins,
  }),
  command({
    names: ['user account'],
    summary: 'Set the account with which a user logs in to a server',
    usage: '<name> <account>|none',
    about:
      'The account is an e-mail address at the identity provider of the server, or the value of server.oidc.user_claim. ' +
      'The next login with this account binds it to the person; see docs/login.md.',
    examples: [
      ['jobman user account ada ada@example.com', 'also if ada has a new account with this address'],
      ['jobman user account ada none', 'ada logs in only with tokens; existing tokens stay valid'],
    ],
    exitCodes: { 3: 'there is no user of this name', 4: 'another user has the account, or you are not an admin' },
    args: [{ name: 'name', summary: 'Name of the user, and the account', many: true, propose: userNames }],
    load: async () => (await import('../commands/user.ts')).account,
  }),
  command({
    names: ['user disable'],
    summary: 'Refuse all requests of a user',
    usage: '<name>',
    about: "jobman refuses the user's tokens and logins from the next request on. Running jobs continue.",
    examples: [['jobman user disable ada', 'then, for the jobs: jobman list --user ada']],
    exitCodes: { 3: 'there is no user of this name', 4: 'the user is the last admin, or you are not an admin' },
    args: [user],
    load: async () => (await import('../commands/user.ts')).disable,
  }),
  command({
    names: ['user enable'],
    summary: 'Accept the requests of a disabled user again',
    usage: '<name>',
    examples: [['jobman user enable ada', 'tokens that have not expired are valid again']],
    exitCodes: { 3: 'there is no user of this name', 4: 'you are not an admin' },
    args: [user],
    load: async () => (await import('../commands/user.ts')).enable,
  }),
  command({
    names: ['user limit'],
    summary: 'Limit the chips, jobs, dollars, projects, clusters, hosts, tokens and files of a user',
    usage: '<name> [limit=value]... | <name> none',
    about:
      'jobman checks the limits when a job is created or started again, a token is created or a file is uploaded; no ' +
      'confirmation overrides them. Limits that you do not name stay.',
    extraRows: [
      'Limits',
      [
        ['chips=64', 'chips of TPUs at once; persistent TPUs and the emulator do not count'],
        ['jobs=20', 'unfinished jobs'],
        ['usd-per-day=500', 'estimated US dollars for TPUs per day (UTC); running jobs end when the limit is reached'],
        ['projects=a,b', 'projects of Google Cloud'],
        ['clusters=c', 'contexts of the kubeconfig, or context/namespace'],
        ['hosts=gpu1,localhost', 'hosts of the settings; `localhost` is the machine of the controller or server'],
        ['tokens=10', 'tokens that are valid at once'],
        ['files-mib=2048', 'MiB of files that the user has sent to the server and that it stores'],
        ['chips=none', 'remove the limit of chips; `none` alone removes all limits'],
      ],
    ],
    examples: [
      ['jobman user limit ada chips=64 jobs=20', 'at most 64 chips at once, and 20 unfinished jobs'],
      ['jobman user limit ada usd-per-day=500 projects=lab-a,lab-b', 'the other limits stay'],
      ['jobman user limit ada none', 'remove all limits'],
      ['jobman user limit ada', 'show the limits'],
    ],
    exitCodes: { 3: 'there is no user of this name', 4: 'you are not an admin' },
    args: [{ name: 'name', summary: 'Name of the user, and the limits', many: true, propose: limitArguments }],
    load: async () => (await import('../commands/user.ts')).limit,
  }),
  command({
    names: ['token', 'token list', 'token ls'],
    summary: 'List tokens: role, expiry and last use, but not their values',
    about: 'An admin sees the tokens of all users, other users only their own.',
    examples: [['jobman token', 'your tokens']],
    load: async () => (await import('../commands/token.ts')).list,
  }),
  command({
    names: ['token create'],
    summary: 'Create a token for the HTTP API',
    usage: '[--name name] [--role role] [--expires 90d] [--user name]',
    about:
      'Prints only the token to standard output, and never shows it again. A token is valid for 90 days by default, and for ' +
      "366 days at most. A request with it has the lower of the token's role and the user's. If no user is registered yet, " +
      'the command registers your login as an admin.',
    examples: [
      ['jobman token create --name laptop', 'for yourself'],
      ['jobman token create --user ada --role viewer --expires 7d', 'an admin creates one for another user'],
      ['jobman token create --name ci | gh secret set JOBMAN_TOKEN', 'store it without showing it'],
    ],
    exitCodes: { 3: 'there is no such user', 4: 'the name is taken, or the role is higher than that of the user' },
    flags: createTokenFlags,
    load: async () => (await import('../commands/token.ts')).create,
  }),
  command({
    names: ['token revoke', 'token rm'],
    summary: 'Revoke a token: it is refused from the next request on',
    usage: '<name|id> [--user name]',
    examples: [
      ['jobman token revoke laptop', 'your own'],
      ['jobman token revoke laptop --user ada', "an admin revokes another user's"],
    ],
    exitCodes: { 3: 'there is no such token' },
    flags: revokeTokenFlags,
    args: [{ name: 'token', summary: 'Name or id of the token', needed: true, propose: tokenNames }],
    load: async () => (await import('../commands/token.ts')).revoke,
  }),
  command({
    names: ['audit'],
    summary: 'Show the audit log: who changed what, and refused requests',
    usage: '[--user name] [--since 7d] [--job job] [--denied] [--limit n] [--before row]',
    about:
      'Newest rows first. An admin sees all rows, other users only their own. jobman never changes or deletes a row. A row ' +
      'contains no values of secrets. docs/users.md explains the rows.',
    examples: [
      ['jobman audit --since 7d --denied', 'refused requests of the last week'],
      ['jobman audit --job 7', 'every change of job 000007'],
      ['jobman audit --user ada --json', 'for programs: one object per line'],
    ],
    flags: auditFlags,
    load: async () => (await import('../commands/audit.ts')).audit,
  }),
]);
