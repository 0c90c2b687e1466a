package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
)

var errPoor = errors.New("not enough")

// A store reads and writes accounts, without locks. It uses the same Redis so that the example needs nothing else.
type store struct {
	rc   rueidis.Client
	name string
}

func (s *store) balance(ctx context.Context, id AccountID) (int64, error) {
	return s.rc.Do(ctx, s.rc.B().Hget().Key(s.name).Field(string(id)).Build()).AsInt64()
}

func (s *store) save(ctx context.Context, id AccountID, cents int64) error {
	return s.rc.Do(ctx, s.rc.B().Hset().Key(s.name).FieldValue().FieldValue(string(id), strconv.FormatInt(cents, 10)).Build()).Error()
}

func (s *store) drop(ctx context.Context) error {
	return s.rc.Do(ctx, s.rc.B().Del().Key(s.name).Build()).Error()
}
