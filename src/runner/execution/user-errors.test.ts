import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { thrownError, thrownMessage } from './user-errors.ts';

describe('a thrown value', () => {
  it('that is an object is described by its message, else as JSON', () => {
    assert.equal(thrownMessage({ message: 'no such row', code: 7 }), 'no such row');
    assert.deepEqual(thrownError({ name: 'DbError', message: 'no such row' }), {
      name: 'DbError',
      message: 'no such row',
    });
    assert.equal(thrownMessage({ status: 404 }), '{"status":404}');
    assert.deepEqual(thrownError({ status: 404 }), { name: 'Error', message: '{"status":404}' });
    assert.equal(thrownMessage([1, 2]), '[1,2]');
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    assert.equal(thrownMessage(cycle), '[object Object]');
  });

  it('is never described as empty text', () => {
    assert.equal(thrownMessage(new Error('')), 'Error');
    assert.equal(thrownMessage(new TypeError('')), 'TypeError');
    assert.equal(thrownMessage(''), 'an empty string was thrown');
    assert.deepEqual(thrownError(''), { name: 'Error', message: 'an empty string was thrown' });
    assert.equal(thrownMessage(undefined), 'undefined');
  });

  it('that is a plain Error is described by its message, others with name or code', () => {
    assert.equal(thrownMessage(new Error('gone')), 'gone');
    assert.equal(thrownMessage(new RangeError('gone')), 'RangeError: gone');
    assert.equal(thrownMessage(Object.assign(new Error('gone'), { code: 'EX' })), 'EX: gone');
    assert.equal(thrownMessage('gone'), 'gone');
    assert.equal(
      thrownMessage({
        get message() {
          throw new Error('never');
        },
      }),
      'a value that cannot be printed was thrown',
    );
  });
});
