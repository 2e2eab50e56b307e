// User: who uses jobman.

/** The name of a user: of a registered user, or the login of an unregistered one. */
type UserName = string;

export type Role = 'viewer' | 'member' | 'admin';

/** A registered user. */
export interface User {
  readonly name: UserName;
  readonly role: Role;
  readonly logins: readonly string[];
}
