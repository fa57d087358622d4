import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RemusterError } from '../../base/errors.ts';
import { type LogOptions, openLog } from './log.ts';

function logged(options: Partial<LogOptions>, ...call: Parameters<ReturnType<typeof openLog>>): string {
  let lines = '';
  const write = (line: string): void => {
    lines += line;
  };
  openLog({ level: 'info', pretty: false, node: 'n1', wallMs: () => 0, color: false, write, ...options })(...call);
  return lines;
}

function fieldsOf(fields: Record<string, unknown>, options: Partial<LogOptions> = {}): Record<string, unknown> {
  return (JSON.parse(logged(options, 'info', 'm', fields)) as { fields: Record<string, unknown> }).fields;
}

describe('a JSON log', () => {
  it('writes one line with time, level, node, message and fields', () => {
    assert.equal(
      logged({}, 'warn', 'peer lost', { peer: 'n2', count: 3 }),
      '{"time":"1970-01-01T00:00:00.000Z","level":"warn","node":"n1","message":"peer lost","fields":{"peer":"n2","count":3}}\n',
    );
  });

  it('omits lines below its level', () => {
    assert.equal(logged({ level: 'warn' }, 'info', 'x'), '');
    assert.notEqual(logged({ level: 'warn' }, 'error', 'x'), '');
  });

  it('escapes values that would forge a line, a field or a colour', () => {
    const hostile = 'a\n{"level":"error"}\r\u001b[31mred\u009b2J\u2028\u202egnp.exe\u0000","level":"error';
    const fields = { hostile, [hostile]: 1, message: 'mine', level: 'mine', ['__proto__']: 'x' };
    const line = logged({}, 'info', hostile, fields);
    assert.equal(line.trimEnd().split('\n').length, 1);
    assert.ok(/^[\x20-\x7e]+\n$/.test(line), 'only plain characters');
    const parsed = JSON.parse(line) as { level: string; message: string; fields: Record<string, unknown> };
    assert.equal(parsed.level, 'info');
    assert.equal(parsed.message, hostile);
    assert.equal(parsed.fields['hostile'], hostile);
    assert.equal(Object.getPrototypeOf(parsed.fields), Object.prototype);
  });

  it('never prints secrets, neither by field name, nor by value, nor as bytes', () => {
    const secret = 'correct horse battery staple';
    const names = ['secret', 'authSecret', 'token', 'apiToken', 'password', 'Authorization', 'sealKey', 'session_key'];
    for (const name of names)
      assert.deepEqual(fieldsOf({ [name]: secret, deep: { [name]: secret } })[name], '[hidden]');
    const line = logged({ secrets: [secret] }, 'error', `it is ${secret}`, {
      error: new Error(`no: ${secret}`),
      list: [`x${secret}x`],
      [`k ${secret}`]: 1,
      material: new Uint8Array(32).fill(65),
    });
    const cut = logged({ secrets: [secret] }, 'info', 'x'.repeat(1_990) + secret);
    assert.ok(!cut.includes('correct'));
    assert.ok(!line.includes(secret) && !line.includes('AAAA') && !line.includes('65,65'));
    assert.match(line, /\[32 bytes\]/);
    assert.deepEqual(fieldsOf({ key: 'pools/a', keys: 3, monkey: 'bonobo' }), {
      key: 'pools/a',
      keys: 3,
      monkey: 'bonobo',
    });
  });

  it('writes errors with name, code and message, and the stack only at level debug', () => {
    const error = new RemusterError('CAPACITY', 'full');
    assert.deepEqual(fieldsOf({ error }), { error: { name: 'RemusterError', code: 'CAPACITY', message: 'full' } });
    assert.ok(!logged({}, 'info', 'm', { error }).includes('log.test'));
    assert.ok(logged({ level: 'debug' }, 'info', 'm', { error }).includes('log.test'));
  });

  it('accepts any value without throwing, and bounds every line', () => {
    const cyclic: Record<string, unknown> = { name: 'loop' };
    cyclic['self'] = cyclic;
    const throwing = {
      get x(): never {
        throw new Error('thrown by a getter');
      },
    };
    const unusual = {
      cyclic,
      throwing,
      big: 2n ** 70n,
      nan: Number.NaN,
      fn: () => 1,
      map: new Map([['a', 1]]),
      none: null,
    };
    const fields = fieldsOf(unusual);
    assert.deepEqual(
      [fields['big'], fields['nan'], fields['throwing']],
      ['1180591620717411303424', 'NaN', '[unreadable]'],
    );
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`f${i}`, 'x'.repeat(5_000)]));
    for (const pretty of [false, true]) {
      assert.ok(logged({ pretty }, 'info', 'y'.repeat(1_000_000), wide).length < 20_000);
    }
    assert.doesNotThrow(() => JSON.parse(logged({}, 'info', 'y'.repeat(1_000_000), wide)));
  });
});

describe('a pretty log', () => {
  it('is one readable line, without escape codes when colour is off', () => {
    assert.equal(
      logged({ pretty: true }, 'info', 'peer lost', { peer: 'n2', why: 'timed out', n: 1 }),
      '00:00:00.000 INFO  n1 peer lost peer=n2 why="timed out" n=1\n',
    );
  });

  it('escapes colour codes in values', () => {
    const line = logged({ pretty: true, color: true }, 'error', '\u001b[32mgreen', { x: '\u001b[32m' });
    assert.ok(line.includes('\u001b[31mERROR'));
    assert.ok(!line.includes('\u001b[32m'));
    assert.ok(line.includes('\\u001b[32mgreen'));
  });

  it('has no colour when NO_COLOR is set', (t) => {
    const before = process.env['NO_COLOR'];
    t.after(() => {
      if (before === undefined) delete process.env['NO_COLOR'];
      else process.env['NO_COLOR'] = before;
    });
    for (const [value, isPlain] of [
      ['1', true],
      ['', false],
    ] as const) {
      process.env['NO_COLOR'] = value;
      let line = '';
      openLog({ level: 'info', pretty: true, write: (text) => (line = text) })('info', 'x');
      assert.equal(line.includes('\u001b'), !isPlain);
    }
  });
});
