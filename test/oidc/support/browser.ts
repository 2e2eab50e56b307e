/** A browser without scripts: it keeps cookies, follows redirects, and a person fills in its forms. */

export interface Page {
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly html: string;
  /** Without markup. */
  readonly text: string;
}

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

export class Browser {
  /** Of 127.0.0.1: as in every browser, ports share them. */
  cookies: Cookie[] = [];
  /** The addresses that it was sent to. */
  readonly visited: string[] = [];
  /** The address to stop at, before it is requested. */
  stopAt: ((url: URL) => boolean) | undefined;

  /** Follows redirects. `site`: `same-origin` for a link of a page with that origin. */
  async open(address: string, form?: URLSearchParams, site: 'none' | 'same-origin' = 'none'): Promise<Page> {
    let [url, body] = [new URL(address), form];
    for (let hops = 0; hops < 20; hops += 1) {
      this.visited.push(url.href);
      if (this.stopAt?.(url) === true) return { url: url.href, status: 0, headers: new Headers(), html: '', text: '' };
      const sent = this.cookies.filter(({ path }) => url.pathname.startsWith(path));
      const answer = await fetch(url, {
        redirect: 'manual',
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          cookie: sent.map(({ name, value }) => `${name}=${value}`).join('; '),
          'sec-fetch-site': url.origin === new URL(address).origin ? site : 'cross-site',
        },
        ...(body !== undefined && { body }),
      });
      for (const header of answer.headers.getSetCookie()) this.keep(header);
      const location = answer.headers.get('location');
      const html = await answer.text();
      if (location === null)
        return { url: url.href, status: answer.status, headers: answer.headers, html, text: textOf(html) };
      [url, body] = [new URL(location, url), undefined];
    }
    throw new Error(`too many redirects: ${this.visited.join(' ')}`);
  }

  private keep(header: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
    const [, path = '/'] = /; *path=([^;]*)/i.exec(header) ?? [];
    this.cookies = this.cookies.filter((one) => one.name !== name || one.path !== path);
    if (value !== '') this.cookies.push({ name, value, path });
  }

  /** Clicks the link with that text. */
  click({ url, html }: Page, text: string): Promise<Page> {
    const links = [...html.matchAll(/<a [^>]*href="([^"]*)"[^>]*>([^<]*)<\/a>/g)];
    const [, href] = links.find(([, , label = '']) => label.includes(text)) ?? [];
    if (href === undefined) throw new Error(`no link ${text} on the page: ${textOf(html)}`);
    return this.open(new URL(decode(href), url).href);
  }

  /** Sends the form of the page, with those fields. */
  submit({ url, html }: Page, fields: Readonly<Record<string, string>> = {}): Promise<Page> {
    const [, action] = /<form [^>]*action="([^"]*)"/.exec(html) ?? [];
    if (action === undefined) throw new Error(`no form on the page: ${textOf(html)}`);
    const form = new URLSearchParams();
    for (const [input] of html.matchAll(/<input [^>]*>/g)) {
      const [, name] = / name="([^"]*)"/.exec(input) ?? [];
      const [, value = ''] = / value="([^"]*)"/.exec(input) ?? [];
      if (name !== undefined) form.set(name, decode(value));
    }
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    return this.open(new URL(decode(action), url).href, form);
  }

  /** At the provider: types the name, and agrees. */
  async logIn(page: Page, name: string): Promise<Page> {
    let current = page;
    if (current.html.includes('name="login"')) current = await this.submit(current, { login: name, password: 'any' });
    // An earlier agreement counts.
    return current.html.includes('value="consent"') ? this.submit(current) : current;
  }
}

function textOf(html: string): string {
  return decode(html.replaceAll(/<(style|script)\b[^]*?<\/\1>/g, '').replaceAll(/<[^>]*>/g, ' '))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function decode(text: string): string {
  return text
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
}
