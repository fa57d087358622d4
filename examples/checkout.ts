/**
 * A load test of a shop: users browse and buy in a loop. `npm start` runs it against a sample target; elsewhere name
 * the target:
 *
 *   remuster run examples/checkout.ts --env TARGET=http://127.0.0.1:8080 --vus 200 --duration 1m --out report.html
 */
import { workflow } from 'remuster';

export default workflow('checkout', {
  vus: 20,
  duration: '15s',
  cores: 2,
  thresholds: {
    'http.duration': ['p(99)<250ms'],
    failed: ['rate<1%'],
  },

  setup: async (ctx) => {
    const base = ctx.env['TARGET'];
    if (base === undefined) throw new Error('no target: add --env TARGET=http://host:port');
    const page = await ctx.http.get(`${base}/`);
    if (page.status !== 200) throw new Error(`the shop replies with status ${page.status}`);
    return { base };
  },

  steps: {
    browse: async (ctx) => {
      const page = await ctx.http.get(`${ctx.data.base}/`);
      ctx.check(page, { 'the page loads': ({ status }) => status === 200 });
    },
    buy: async (ctx) => {
      const order = await ctx.http.post(`${ctx.data.base}/buy`, { json: { n: 1 } });
      if (ctx.check(order, ({ status }) => status === 200, 'the order is accepted')) ctx.metrics.count('sold');
    },
  },

  think: ['5ms', '20ms'],
});
